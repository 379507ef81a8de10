"""A caller's sound between the network, which is not even, and the tick, which is.

Sound waits until two frames are there, so that a late packet does no harm; it is then taken a frame
at a time, until it has run out. Four frames wait at most, where nothing else is said; beyond these
the oldest goes, since a model that listens live must not fall behind. Nor must it after ticks that
were skipped: what the caller said meanwhile is let go, for whoever is heard later than before is
heard later for good. So is, of sound that comes as it is spoken, what a late piece has left
waiting; where it may come faster, more waits than has to, and all is heard. What is too little to
be waited for (the last of a caller who has gone quiet) is taken as it is, filled up with silence.
Pure.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from engine.audio.pcm import Int16, int16
from engine.contract import Order, Sound

PREBUFFER = 2
"""Frames that sound waits for, and ticks that it waits at most."""
CAP = 4
"""Frames that may wait, where nothing else is said."""
STANDS = 10
"""Ticks after which what waited at each of them is waited for in vain."""


class Buffer:
    """The sound and orders of one caller, for ticks of ``frame`` samples.

    Args:
        room: samples that may wait; None: four frames.

    Attributes:
        real_time: whether sound comes as it is spoken, and no faster.
    """

    __slots__ = (
        "_behind", "_capacity", "_flows", "_frame", "_orders", "_silence", "_sounds",
        "_surplus", "_waited", "dropped", "held", "offered", "real_time",
    )  # fmt: skip

    def __init__(self, frame: int, room: int | None = None) -> None:
        self._frame = frame
        self._capacity = CAP * frame if room is None else room
        self._silence = np.zeros(frame, np.int16)
        self._sounds: deque[Int16] = deque()
        self._orders: deque[tuple[int, Order]] = deque()
        """Each with the samples that had been offered before it."""
        self._flows = False
        self._surplus: list[int] = []  # samples, of the latest ticks in a row that left much
        self.real_time = False
        self._waited = 0
        self._behind = 0  # samples that skipped ticks did not take
        self.offered = self.dropped = self.held = 0
        """Samples: put in, heard by nobody, and waiting."""

    @property
    def room(self) -> int:
        """Samples that can be offered now without loss."""
        return self._capacity - self.held

    def put(self, entry: Sound | Order) -> int:
        """Adds sound or an order behind everything that waits; returns the room that is left."""
        if not isinstance(entry, np.ndarray):
            self._orders.append((self.offered, entry))
        elif samples := len(entry):
            self._sounds.append(int16(entry))
            self.offered += samples
            self.held += samples
            if self.held > self._capacity:
                self._let_go(self.held - self._capacity)
        return self._capacity - self.held

    def fill(self, pieces: list[Int16], *, listens: bool = True, skipped: int = 0) -> list[Order]:
        """Takes a tick's share: a frame, behind ``pieces``, and the orders behind its sound.

        Where nobody ``listens`` yet, the sound is dropped. ``skipped`` ticks were not run before.
        """
        size = self._frame
        self._behind += skipped * size
        if self._behind:
            self._let_go(min(self._behind, self.held - PREBUFFER * size))
        held = self.held
        enough = held >= (size if self._flows else PREBUFFER * size)
        self._flows = enough or self._waited >= PREBUFFER
        self._waited = 0 if self._flows or not held else self._waited + 1
        samples = min(held, size) if self._flows else 0
        if not samples:
            self._behind = 0
        self._take(samples, pieces if listens else [])
        if not listens:
            self.dropped += samples
            samples = 0
        if samples < size:
            pieces.append(self._silence[samples:])
        if self.real_time:
            self._catch_up()
        orders = []
        while self._orders and self._orders[0][0] <= self.offered - self.held:
            orders.append(self._orders.popleft()[1])
        return orders

    def _catch_up(self) -> None:
        """Drops what no tick of the last while had need of, if it is half a frame or more."""
        surplus = self.held - (PREBUFFER - 1) * self._frame
        if surplus < self._frame / 2:
            self._surplus.clear()
            return
        self._surplus.append(surplus)
        if len(self._surplus) == STANDS:
            self._let_go(min(self._surplus))
            self._surplus.clear()

    def _let_go(self, samples: int) -> None:
        """Drops the oldest samples, if there are any to drop."""
        if samples > 0:
            self.dropped += samples
            self._behind = max(0, self._behind - samples)
            self._take(samples, [])

    def _take(self, samples: int, pieces: list[Int16]) -> None:
        """Moves the oldest samples behind ``pieces``."""
        self.held -= samples
        while samples:
            sound = self._sounds.popleft()
            if len(sound) > samples:
                self._sounds.appendleft(sound[samples:])
                sound = sound[:samples]
            pieces.append(sound)
            samples -= len(sound)
