"""A session's events on their way to its one reader: in order, and bounded.

A reader that has gone away must not make an engine grow, and an engine must not wait for a reader.
So an event beyond the bound is not kept, and the session it belongs to has to end.

However a session ends, each reply that was started is ended, once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from engine.contract import Closed, EndReason, Event, Fault, ReplyAudio, ReplyEnded, ReplyStarted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LIMIT = 8 << 20
"""Bytes held for a reader: more than the longest run of a reply ahead of its playout."""
_OVERHEAD = 512
"""Bytes that an event is reckoned to take beside its samples."""


class Outbox:
    """The events of one session, from whoever makes them to ``read``."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self.closed: Closed | None = None
        """The last event, once there is one; it may not have been read yet."""
        self._limit = limit
        self._held = 0
        self._events: deque[Event] = deque()
        self._replies: dict[str, None] = {}
        self._waiting: asyncio.Future[None] | None = None

    def put(self, event: Event) -> bool:
        """Appends an event; False: there was no room, and it was not kept."""
        size = _size(event)
        if self._held + size > self._limit:
            return False
        if isinstance(event, ReplyStarted):
            self._replies[event.reply] = None
        elif isinstance(event, ReplyEnded):
            self._replies.pop(event.reply, None)
        self._held += size
        self._events.append(event)
        self._wake()
        return True

    def end(self, closed: Closed, fault: Fault | None = None) -> None:
        """Appends the session's last events, whatever is held already. Nothing may follow.

        Open replies end first: as ``failed`` where there is a fault, else as ``cancelled``.
        """
        reason: EndReason = "failed" if fault is not None else "cancelled"
        self._events += [ReplyEnded(reply=reply, reason=reason) for reply in self._replies]
        if fault is not None:
            self._events.append(fault)
        self._events.append(closed)
        self.closed = closed
        self._wake()

    async def read(self) -> AsyncIterator[Event]:
        """The events as they come, up to and including ``Closed``."""
        while self._events or self.closed is None:
            if not self._events:
                self._waiting = asyncio.get_running_loop().create_future()
                await self._waiting
            event = self._events.popleft()
            self._held -= _size(event)
            yield event

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _size(event: Event) -> int:
    return _OVERHEAD + (event.pcm.nbytes if isinstance(event, ReplyAudio) else 0)
