"""How errors leave the server as answers to HTTP requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from server.errors import ServiceError, bad_request

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

log = structlog.get_logger(__name__)


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error leaves as OpenAI's JSON; one of ours is logged, and its text stays here."""
    try:
        return await handler(request)
    except ServiceError as error:
        return _response(error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        code = error.reason.lower().replace(" ", "_")
        return _response(bad_request(code, error.reason, status=error.status))
    except Exception:
        log.exception("request failed", method=request.method, path=request.path)
        return _response(
            ServiceError(500, "server_error", "internal_error", "the server failed; see its log")
        )


def _response(error: ServiceError) -> web.Response:
    return web.json_response(error.body(), status=error.status, headers=error.headers())
