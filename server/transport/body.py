"""Reading a request's body: within a set time, and its JSON within a client event's bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from aiohttp.web import RequestPayloadError

from server.errors import bad_request
from server.protocol import wire
from server.requests import RequestError

MAX_REQUEST = 1024 * 1024
"""Bytes: an offer and a session object together."""

T = TypeVar("T")


async def within(seconds: float, reading: Awaitable[T]) -> T:
    """What ``reading`` yields.

    Raises:
        ServiceError: it took longer, the connection broke off, or it cannot be unpacked.
    """
    try:
        async with asyncio.timeout(seconds):
            return await reading
    except TimeoutError:
        message = f"expected the whole request within {seconds:g} s"
        raise bad_request("request_timeout", message, status=408) from None
    except (ConnectionError, RequestPayloadError):
        message = "the request broke off, or its body is damaged"
        raise bad_request("request_incomplete", message) from None


def json_object(text: str | bytes, code: str, param: str | None = None) -> dict[str, Any]:
    """The JSON object in ``text``.

    Raises:
        ServiceError: it is none, or beyond the bounds of :func:`wire.decode`; with ``code``.
    """
    try:
        return wire.decode(text)
    except RequestError:
        message = f"{f'{param}: ' if param else ''}expected {wire.EXPECTED}"
        raise bad_request(code, message, param) from None
