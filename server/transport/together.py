"""Calls that are put off to the end of the event loop's turn, and then made one after the other.

A system call leaves the processor's caches and its predictions to the kernel, and the code around
it starts anew. A server that reads a socket, takes what it brought, writes another one and so on,
hundreds of times a turn, pays for that each time; one that first reads all that came, then writes
all that is to be written, and then takes all that was read needs a tenth less of its core
(docs/duplex.md).

What was read waits while, turn by turn, there is something to write, for a short while. So the
frames that an engine's tick brings for many callers leave before what the callers said meanwhile is
taken: a frame that comes late is heard, and what is said waits for the next tick anyway.
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
"""Seconds that what was read may wait, half a frame of an engine's tick; a turn or two more where
turns are long."""

log = structlog.get_logger(__name__)


class Together:
    """What the sockets of one loop put off."""

    def __init__(self) -> None:
        self._writes: list[Callable[[], None]] = []
        self._takes: list[Callable[[], None]] = []
        self._oldest = 0.0  # of what was read and waits
        self._wrote = False  # since then, or since that was looked at
        self._context = Context()  # None of theirs is another's.

    def write(self, call: Callable[[], None]) -> None:
        """Has ``call``, which writes, made before anything that is scheduled from now on."""
        if not self._writes:
            asyncio.get_running_loop().call_soon(self._write, context=self._context)
        self._writes.append(call)

    def take(self, call: Callable[[], None]) -> None:
        """Has ``call``, which takes what was read, made once a turn writes nothing, or soon."""
        if not self._takes:
            self._oldest, self._wrote = time.monotonic(), False
            asyncio.get_running_loop().call_soon(self._take, context=self._context)
        self._takes.append(call)

    def _write(self) -> None:
        calls, self._writes, self._wrote = self._writes, [], True
        _make(calls)

    def _take(self) -> None:
        if (self._writes or self._wrote) and time.monotonic() - self._oldest <= PATIENCE:
            asyncio.get_running_loop().call_soon(self._look_again)
            return
        calls, self._takes = self._takes, []
        _make(calls)

    def _look_again(self) -> None:
        """Before a turn reads: what it reads may be more to write."""
        self._wrote = False
        asyncio.get_running_loop().call_soon(self._take)


def _make(calls: list[Callable[[], None]]) -> None:
    for call in calls:
        try:
            call()
        except Exception as error:
            log.error("socket failed", exc_info=error)


TOGETHER = web.AppKey("together", Together)
"""An application's."""
