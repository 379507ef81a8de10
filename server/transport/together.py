"""Calls that are put off to the end of the event loop's turn, and then made one after the other.

A system call leaves the processor's caches and its predictions to the kernel, and the code around
it starts anew. A server that reads a socket, takes what it brought, writes another one and so on,
hundreds of times a turn, pays for that each time; one that first reads all that came, then takes
it, and then writes all that is to be written needs a tenth less of its core (docs/duplex.md).
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger(__name__)


class Together:
    """What the sockets of one loop put off."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []
        self._context = Context()  # None of theirs is another's.

    def soon(self, call: Callable[[], None]) -> None:
        """Has ``call`` made before anything that is scheduled from now on."""
        if not self._calls:
            asyncio.get_running_loop().call_soon(self._make, context=self._context)
        self._calls.append(call)

    def _make(self) -> None:
        calls, self._calls = self._calls, []
        for call in calls:
            try:
                call()
            except Exception as error:
                log.error("socket failed", exc_info=error)


TOGETHER = web.AppKey("together", Together)
"""An application's."""
