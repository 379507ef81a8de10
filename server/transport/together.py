"""Calls that are put off to the end of the event loop's turn, and then made one after the other.

A system call leaves the processor's caches and its predictions to the kernel, and the code around
it starts anew. A server that reads a socket, takes what it brought, writes another one and so on,
hundreds of times a turn, pays for that each time; one that first reads all that came, then takes
it, and then writes all that is to be written needs a tenth less of its core (docs/duplex.md).

What is to be written goes first. While an engine's tick brings frames for many callers, turn by
turn, what the callers said meanwhile waits a little: it has a frame's time to wait, while a frame
that comes late is heard.
"""

from __future__ import annotations

import asyncio
import time
from contextvars import Context
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 0.04
"""Seconds that what was read waits for what is to be written, at most: half a frame of an engine's
tick, of which two wait before it anyway."""

log = structlog.get_logger(__name__)


class Together:
    """What the sockets of one loop put off."""

    def __init__(self) -> None:
        self._writes: list[Callable[[], None]] = []
        self._takes: list[Callable[[], None]] = []
        self._oldest = 0.0  # of what was read and not taken
        self._context = Context()  # None of theirs is another's.

    def write(self, call: Callable[[], None]) -> None:
        """Has ``call``, which writes, made before anything that is scheduled from now on."""
        self._soon()
        self._writes.append(call)

    def take(self, call: Callable[[], None]) -> None:
        """Has ``call``, which takes what was read, made so too, or after a few turns in which there
        is something to write.
        """
        self._soon()
        if not self._takes:
            self._oldest = time.monotonic()
        self._takes.append(call)

    def _soon(self) -> None:
        if not (self._writes or self._takes):
            asyncio.get_running_loop().call_soon(self._make, context=self._context)

    def _make(self) -> None:
        writes, self._writes = self._writes, []
        takes: list[Callable[[], None]] = []
        if not writes or time.monotonic() - self._oldest > PATIENCE:
            takes, self._takes = self._takes, []
        elif self._takes:  # Behind what the next turn reads, which may be more to write.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._make, context=self._context)
        for call in (*writes, *takes):
            try:
                call()
            except Exception as error:
                log.error("socket failed", exc_info=error)


TOGETHER = web.AppKey("together", Together)
"""An application's."""
