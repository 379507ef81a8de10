"""A caller's sound between the network, which is not even, and the tick, which is.

Sound waits until two frames are there, so that a late packet does no harm; it is then taken a frame
at a time, until it has run out. So many wait at most; beyond these the oldest goes, since a
model that listens live must not fall behind. What is too little to be waited for (the last of a
caller who has gone quiet) is taken as it is, filled up with silence. Pure.
"""

from __future__ import annotations

import numpy as np

from engine.contract import Order, Samples
from engine.intake import Gap, Intake

PREBUFFER = 2
"""Frames that sound waits for, and ticks that it waits at most."""
CAP = 4
"""Frames that may wait, where nothing else is said."""


class Buffer(Intake):
    """The sound and orders of one caller, for ticks of ``frame`` samples.

    Args:
        room: samples that may wait; None: four frames.
    """

    def __init__(self, frame: int, room: int | None = None) -> None:
        super().__init__(CAP * frame if room is None else room)
        self._frame = frame
        self._flows = False
        self._waited = 0

    def fill(self, frame: Samples, *, listens: bool = True) -> list[Order]:
        """Takes a tick's share: sound into ``frame``, else silence, and the orders behind it.

        Where nobody ``listens`` yet, the sound is lost.
        """
        enough = self.held >= (self._frame if self._flows else PREBUFFER * self._frame)
        self._flows = enough or self._waited >= PREBUFFER
        self._waited = 0 if self._flows or not self.held else self._waited + 1
        most = self._frame if self._flows else 0
        samples = 0
        orders: list[Order] = []
        while (entry := self.pop(most - samples)) is not None:
            if isinstance(entry, np.ndarray):
                frame[samples : samples + len(entry)] = entry
                samples += len(entry)
            elif not isinstance(entry, Gap):
                orders.append(entry)
        if not listens:
            self.dropped += samples
            samples = 0
        if samples < self._frame:
            frame[samples:] = 0.0
        return orders
