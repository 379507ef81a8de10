"""What was recorded in the page, and what can be told from it: pure measurements.

Both sides of a call lie on one clock, that of the page's audio: the microphone as it leaves for the
network (``local``), and the reply as it comes from it (``remote``), before any gain of the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engine.contract import Samples

RATE = 48_000
SPOKEN = 0.015
"""Amplitude from which a sample of the caller's counts as speech."""
AUDIBLE = 0.01
"""Amplitude from which a sample of the reply's counts as heard."""
_WINDOW = RATE // 100
"""Samples over which a level is taken, 10 ms."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Samples from ``first`` to before ``end``."""

    first: int
    end: int

    @property
    def ms(self) -> float:
        return (self.end - self.first) * 1000 / RATE


@dataclass(frozen=True, slots=True)
class Recording:
    """Both sides in -1..1 at ``RATE``; sample 0 is the audio clock's frame ``first``.

    Positions below are frames of that clock.
    """

    first: int
    local: Samples
    remote: Samples

    @property
    def end(self) -> int:
        return self.first + len(self.local)

    def heard(self, where: Stretch) -> Samples:
        """The reply as it was heard there."""
        return self.remote[where.first - self.first : where.end - self.first]

    def spoken(self, where: Stretch) -> Stretch:
        """From the first to the last sample that the caller spoke in ``where``."""
        found = self._loud(self.local, where, SPOKEN)
        return Stretch(int(found[0]), int(found[-1]) + 1)

    def answered(self, after: int) -> int | None:
        """The first audible sample of the reply from ``after`` on."""
        found = self._loud(self.remote, Stretch(after, self.end), AUDIBLE)
        return int(found[0]) if len(found) else None

    def response_ms(self, said: Stretch) -> float | None:
        """From the last sample that the caller spoke in ``said`` to the reply's first."""
        over = self.spoken(said).end
        answered = self.answered(over)
        return None if answered is None else Stretch(over, answered).ms

    def cut(self, said: Stretch) -> Stretch:
        """The reply's way down while the caller spoke in ``said``: from the caller's onset until
        the reply is 20 dB below the level of the half second before, to stay there for as long.

        Raises:
            ValueError: it never is.
        """
        onset = self.spoken(said).first
        before = self.heard(Stretch(onset - RATE // 2, onset))
        bar = 0.1 * float(np.sqrt(np.mean(before**2)))
        levels = self._levels(Stretch(onset, onset + 2 * RATE))
        quiet = np.ones(RATE // 2 // _WINDOW, np.int_)
        below = np.convolve(levels < bar, quiet, "valid") == len(quiet)
        if not below.any():
            raise ValueError("the reply goes on")
        return Stretch(onset, onset + int(below.argmax()) * _WINDOW)

    def gaps(self, where: Stretch, longest_ms: float) -> list[Stretch]:
        """Where in ``where`` the reply is inaudible for longer than ``longest_ms``."""
        found = self._loud(self.remote, where, AUDIBLE)
        edges = np.concatenate([[where.first], found, [where.end]])
        gaps = [Stretch(int(a), int(b)) for a, b in pairwise(edges)]
        return [gap for gap in gaps if gap.ms > longest_ms]

    def _levels(self, where: Stretch) -> Samples:
        sound = self.heard(where)
        whole = len(sound) // _WINDOW * _WINDOW
        levels: Samples = np.sqrt(np.mean(sound[:whole].reshape(-1, _WINDOW) ** 2, axis=1))
        return levels

    def _loud(
        self, side: Samples, where: Stretch, amplitude: float
    ) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        part = side[max(0, where.first - self.first) : where.end - self.first]
        return np.flatnonzero(np.abs(part) > amplitude) + max(where.first, self.first)


def joined(one: Recording, two: Recording) -> Recording:
    """``two`` was recorded right after ``one``; sound between them that is missing is silence."""
    gap = np.zeros(two.first - one.end, np.float32)
    return Recording(
        one.first,
        np.concatenate([one.local, gap, two.local]),
        np.concatenate([one.remote, gap, two.remote]),
    )
