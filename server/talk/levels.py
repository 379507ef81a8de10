"""How loud sound is, in decibels and as a bar. Pure."""

from __future__ import annotations

import math

from engine.contract import Samples

FLOOR = -60.0
"""dBFS, shown as silence."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Meter:
    """Keeps the peak of one side: since the last look, and since the beginning."""

    def __init__(self) -> None:
        self._now = 0.0
        self.loudest = FLOOR

    def see(self, pcm: Samples) -> None:
        """Takes sound."""
        if len(pcm):
            self._now = max(self._now, float(abs(pcm).max()))
            self.loudest = max(self.loudest, decibels(self._now))

    def look(self) -> float:
        """The peak in dBFS since the last look."""
        peak, self._now = self._now, 0.0
        return decibels(peak)


def decibels(peak: float) -> float:
    """``peak`` (0..1) in dB below full scale, ``FLOOR`` at least."""
    return max(FLOOR, 20 * math.log10(peak)) if peak > 0 else FLOOR


def bar(level: float, width: int) -> str:
    """``level`` in dBFS as a bar of ``width`` characters."""
    eighths = round((1 - min(0.0, max(FLOOR, level)) / FLOOR) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)
