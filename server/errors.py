"""Errors that an HTTP request is answered with, in OpenAI's form.

Stock clients show ``error.message`` and branch on ``error.code``: both are our interface.
What a client of a running session gets wrong is not here: that is a
:class:`server.requests.RequestError`, answered with an event.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from server.requests import RequestError

ErrorType = Literal["invalid_request_error", "server_error"]


class ServiceError(Exception):
    """A request that is refused before there is a session to speak in.

    Args:
        status: the HTTP status.
        type: ``invalid_request_error`` where the client must change its request, else
            ``server_error``.
        code: machine-readable, stable (``server_busy``).
        message: who must do what, with expected and got; never holds a secret or what was said.
        param: the field at fault, dotted, or None.
        retry_after: seconds after which asking again makes sense, or None.
    """

    def __init__(
        self,
        status: int,
        type: ErrorType,
        code: str,
        message: str,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after

    def body(self) -> dict[str, dict[str, str | None]]:
        """The response's JSON body."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "code": self.code,
                "param": self.param,
            }
        }

    def headers(self) -> dict[str, str]:
        """``Retry-After`` in whole seconds, and how to show a key, where there is one to give."""
        headers = {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        return headers


def bad_request(
    code: str, message: str, param: str | None = None, status: int = 400
) -> ServiceError:
    """The client must change its request."""
    return ServiceError(status, "invalid_request_error", code, message, param)


def refused(error: RequestError) -> ServiceError:
    """What a session would have refused, before there is one."""
    return bad_request(error.code, error.message, error.param)


def unavailable(code: str, message: str, retry_after: float | None = None) -> ServiceError:
    """The service cannot take the request now (503)."""
    return ServiceError(503, "server_error", code, message, retry_after=retry_after)
