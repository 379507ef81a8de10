"""What waits of sound that is made as it sounds, and need not. Pure.

Nothing of such a stream has to wait, but once a frame was late, or the loop that moves them, what
piled up stays: it leaves no faster than it comes. The *spare* of a frame is how long it lay ready
before it was due, and the least one of a while is delay without a use. It is let go of a step at a
time, by frames that are due sooner, and where it is more than a frame by laying one over the next.
"""

from __future__ import annotations

from collections import deque

STANDS = 300_000_000
"""Nanoseconds after which spare is surplus: more than passes between two pieces of a stream."""
APART = 3
"""Frames of which one may be made of two: speech is a third faster then, and stays clear."""


class Surplus:
    """The surplus of one stream; times are nanoseconds.

    Args:
        period: that a frame lasts.
        step: by which frames may be due sooner.
    """

    def __init__(self, period: int, step: int) -> None:
        self._period = period
        self._step = step
        self._spares: deque[int] = deque(maxlen=-(-STANDS // period))
        self._apart = APART

    def add(self, spare: int) -> None:
        """A frame was handed out that had lain ready for so long."""
        self._spares.append(spare)

    def frames(self) -> int:
        """Of how many frames the next one is to be made, one or two."""
        self._apart += 1
        if self._apart < APART or self._stands < self._period + self._step:
            return 1
        self._apart = 0
        self._let_go(self._period)
        return 2

    def sooner(self) -> int:
        """By how much the next frame is to be due sooner than a period after the one before."""
        if not self._step <= self._stands < self._period + self._step:
            return 0
        self._let_go(self._step)
        return self._step

    @property
    def _stands(self) -> int:
        """What no frame of the last while had need of."""
        return min(self._spares) if len(self._spares) == self._spares.maxlen else 0

    def _let_go(self, spare: int) -> None:
        self._spares = deque((each - spare for each in self._spares), self._spares.maxlen)
