"""Reading a request's body: all of it comes within a set time, or the request is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from aiohttp.web import RequestPayloadError

from server.errors import bad_request

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
