"""A caller's sound between the network, which is not even, and the tick, which is.

Sound waits until two frames are there, so that a late packet does no harm; it is then taken a frame
at a time, until it has run out. Four frames wait at most; beyond these the oldest goes, since a
model that listens live must not fall behind. What is too little to be waited for (the last of a
caller who has gone quiet) is taken as it is, filled up with silence. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.contract import Order, Samples
from engine.intake import Gap, Intake

PREBUFFER = 2
"""Frames that sound waits for, and ticks that it waits at most."""
CAP = 4
"""Frames that may wait."""


class Taken(NamedTuple):
    """What a tick takes: its sound, None if there is none, and the orders given behind that."""

    sound: Samples | None
    orders: list[Order]


class Buffer:
    """The sound and orders of one caller, for ticks of ``frame`` samples."""

    def __init__(self, frame: int) -> None:
        self._frame = frame
        self._intake = Intake(CAP * frame)
        self._flows = False
        self._waited = 0
        self.heard = self.missed = 0
        """Samples: taken to be heard, and taken while nobody listened."""

    @property
    def room(self) -> int:
        """Samples that can be offered now without loss."""
        return self._intake.room

    @property
    def held(self) -> int:
        """Samples that wait."""
        return self._intake.held

    @property
    def offered(self) -> int:
        """Samples put in so far."""
        return self._intake.offered

    @property
    def dropped(self) -> int:
        """Samples that nobody will hear."""
        return self._intake.dropped + self.missed

    def put(self, entry: Samples | Order) -> None:
        """Adds sound or an order behind everything that waits."""
        self._intake.put(entry)

    def take(self, listens: bool = True) -> Taken:
        """Takes a tick's share; where nobody ``listens`` yet, its sound is missed."""
        held, frame = self._intake.held, self._frame
        enough = held >= (frame if self._flows else PREBUFFER * frame)
        self._flows = enough or self._waited >= PREBUFFER
        self._waited = 0 if self._flows or not held else self._waited + 1
        entries = list(self._intake.take(frame if self._flows else 0))
        sound = [entry for entry in entries if isinstance(entry, np.ndarray)]
        orders = [entry for entry in entries if not isinstance(entry, np.ndarray | Gap)]
        samples = sum(map(len, sound))
        if not listens:
            self.missed += samples
        else:
            self.heard += samples
        if not samples or not listens:
            return Taken(None, orders)
        whole = np.zeros(frame, np.float32)
        whole[:samples] = np.concatenate(sound)
        return Taken(whole, orders)
