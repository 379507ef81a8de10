"""A session in an engine's process, as if it were here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.contract import (
    Close,
    Closed,
    CloseReason,
    EngineInfo,
    Event,
    Fault,
    Order,
    Played,
    SessionEnded,
    Sound,
)
from engine.outbox import Outbox
from engine.remote import wire
from engine.remote.link import Link
from engine.remote.wire import Unsendable

_PLAYED = 0.05
"""Seconds that word of playout may wait for company: it comes often, and nothing hangs on it."""
_PIECE = 1 << 20
"""Samples in one message, at most."""


class RemoteSession:
    """A session on the other side of the border."""

    __slots__ = (
        "_capacity", "_left", "_link", "_looks", "_number", "_outbox", "_patience", "_taken",
    )  # fmt: skip

    def __init__(self, number: int, link: Link, capacity: int, info: EngineInfo) -> None:
        self._number = number
        self._link = link
        self._capacity = capacity
        self._patience = info.input_rate // 2
        self._left = capacity
        self._taken = self._looks = 0
        self._outbox = Outbox()

    @property
    def room(self) -> int:
        """See ``EngineSession``. None while the other side does not read."""
        return self._left if self._left > 0 and self._link.writable else 0

    def hear(self, pcm: Sound) -> int:
        """See ``EngineSession``."""
        if self._outbox.closed is not None:
            raise SessionEnded(self._outbox.closed)
        samples = len(pcm)
        self._left -= samples
        pieces = (pcm,) if samples <= _PIECE else np.split(pcm, range(_PIECE, samples, _PIECE))
        try:
            for piece in pieces:
                self._link.offer(wire.sound(self._number, piece), self._link.company)
        except Unsendable as error:
            self.fail("engine_failed", str(error))
        return self.room

    def order(self, order: Order) -> None:
        """See ``EngineSession``. One that cannot be passed on ends the session."""
        if self._outbox.closed is not None:
            raise SessionEnded(self._outbox.closed)
        if isinstance(order, Close):
            self._link.send(wire.Give(self._number, order))
        else:
            within = _PLAYED if isinstance(order, Played) else 0.0
            try:
                self._link.offer(wire.pack(wire.Give(self._number, order)), within)
            except Unsendable as error:
                self.fail("engine_failed", str(error))

    def listen(self, told: Callable[[Event], None]) -> None:
        """See ``EngineSession``."""
        self._outbox.listen(told)

    def told(self, event: Event) -> bool:
        """Takes an event from the other side; False: the session has ended, with it or before."""
        if self._outbox.closed is not None:
            return False
        if isinstance(event, Closed):
            self._outbox.end(event)
            return False
        try:
            if not self._outbox.tell(event):
                self.fail("events_unread", "nobody reads the session's events")
        except Exception as error:  # Whoever listens fails: this session, and no other.
            self.fail("engine_failed", f"who listens raised {type(error).__name__}")
        return self._outbox.closed is None

    def moved(self, taken: int) -> None:
        """The engine has come to ``taken`` samples."""
        self._left += taken - self._taken
        self._taken = taken
        self._looks = 0

    def lost(self, message: str) -> None:
        """The engine is gone."""
        self._end("engine_lost", Fault(code="engine_lost", message=message))

    def fail(self, code: str, message: str) -> None:
        """Ends this session, on both sides, and nothing else."""
        self._link.send(wire.Give(self._number, Close()))
        self._end("engine_failed", Fault(code=code, message=message))

    def look(self) -> int:
        """How many looks in a row, with this one, found sound waiting and none of it taken.

        0 where too little waits to tell: an engine may wait for a whole frame or tick.
        """
        if self._waiting <= self._patience:
            return 0
        self._looks += 1
        return self._looks

    @property
    def _waiting(self) -> int:
        """Samples that were offered and not taken."""
        return self._capacity - self._left

    def _end(self, reason: CloseReason, fault: Fault) -> None:
        if self._outbox.closed is None:
            waiting = self._waiting
            heard = self._taken + waiting
            closed = Closed(reason, heard=heard, dropped=waiting, message=fault.message)
            self._outbox.end(closed, fault)
