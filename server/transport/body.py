"""Reading a request's body: all of it comes within a set time, or the request is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from server.errors import bad_request

T = TypeVar("T")


async def within(seconds: float, reading: Awaitable[T]) -> T:
    """What ``reading`` yields.

    Raises:
        ServiceError: it took longer, or the connection broke off.
    """
    try:
        async with asyncio.timeout(seconds):
            return await reading
    except TimeoutError:
        message = f"expected the whole request within {seconds:g} s"
        raise bad_request("request_timeout", message, status=408) from None
    except ConnectionError:
        raise bad_request("request_incomplete", "the request broke off") from None
