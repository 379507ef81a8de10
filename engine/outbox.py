"""A session's events on their way to its one listener: in order, and bounded.

A listener that has gone away must not make an engine grow, and an engine must not wait for one. So
an event beyond the bound is not kept, and the session it belongs to has to end.

However a session ends, each reply that was started is ended, once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from engine.contract import Closed, EndReason, Event, Fault, ReplyAudio, ReplyEnded, ReplyStarted

if TYPE_CHECKING:
    from collections.abc import Callable

_LIMIT = 8 << 20
"""Bytes held for a listener: more than the longest run of a reply ahead of its playout."""
_OVERHEAD = 512
"""Bytes that an event is reckoned to take beside its samples."""


class Outbox:
    """The events of one session, from whoever makes them to whoever listens."""

    __slots__ = ("_busy", "_events", "_held", "_limit", "_listener", "_replies", "closed")

    def __init__(self, limit: int = _LIMIT) -> None:
        self.closed: Closed | None = None
        """The last event, once there is one; it may not have been told yet."""
        self._limit = limit
        self._held = 0
        self._events: deque[Event] = deque()
        self._replies: dict[str, None] = {}
        self._listener: Callable[[Event], None] | None = None
        self._busy = False
        """Whether events are being told, or about to be: those that come now come after them."""

    def listen(self, told: Callable[[Event], None] | None) -> None:
        """Has the events told from here on, those that wait first; None: they wait for somebody.

        With ``Closed`` the listener is let go of.
        """
        self._listener = told
        self._tell_soon()

    def put(self, event: Event) -> bool:
        """Has an event told soon; False: there was no room, and it was not kept."""
        size = _size(event)
        if self._held + size > self._limit:
            return False
        if not isinstance(event, ReplyAudio):
            self._note(event)
        self._held += size
        self._events.append(event)
        self._tell_soon()
        return True

    def tell(self, event: Event) -> bool:
        """As ``put``, but at once where nothing comes before it.

        Only for who is called by the event loop, and not by whoever listens.
        """
        if self._busy or self._listener is None:
            return self.put(event)
        if not isinstance(event, ReplyAudio):
            self._note(event)
        self._busy = True
        try:
            self._listener(event)
        finally:
            self._busy = False
            if self._held or self.closed is not None:
                self._tell_soon()
        return True

    def end(self, closed: Closed, fault: Fault | None = None) -> None:
        """Puts the session's last events, whatever is held already. Nothing may follow.

        Open replies end first: as ``failed`` where there is a fault, else as ``cancelled``.
        """
        reason: EndReason = "failed" if fault is not None else "cancelled"
        self._events += [ReplyEnded(reply=reply, reason=reason) for reply in self._replies]
        if fault is not None:
            self._events.append(fault)
        self._events.append(closed)
        self.closed = closed
        self._tell_soon()

    def _note(self, event: Event) -> None:
        """Keeps account of the replies that run."""
        if isinstance(event, ReplyStarted):
            self._replies[event.reply] = None
        elif isinstance(event, ReplyEnded):
            self._replies.pop(event.reply, None)

    def _tell_soon(self) -> None:
        if self._events and self._listener is not None and not self._busy:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._tell_all)

    def _tell_all(self) -> None:
        try:
            while self._events and self._listener is not None:
                event = self._events.popleft()
                self._held -= _size(event)
                self._listener(event)
        finally:
            self._busy = False
            self._tell_soon()
        if self.closed is not None and not self._events:
            self._listener = None


def _size(event: Event) -> int:
    return _OVERHEAD + (event.pcm.nbytes if isinstance(event, ReplyAudio) else 0)
