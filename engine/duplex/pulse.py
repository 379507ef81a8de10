"""How a clock keeps time: counters, and how late and how long its latest ticks were."""

from __future__ import annotations

import numpy as np

_LATEST = 1024


class Pulse:
    """Written by the thread that ticks; anyone may read."""

    def __init__(self) -> None:
        self._late = np.zeros(_LATEST)
        self._took = np.zeros(_LATEST)
        self.ticks = self.skipped = 0

    def beat(self, late: float, took: float, skipped: int) -> None:
        """A tick began ``late`` seconds after it was due, after ``skipped`` that were overrun."""
        self._late[self.ticks % _LATEST] = late
        self._took[self.ticks % _LATEST] = took
        self.ticks += 1
        self.skipped += skipped

    def figures(self) -> dict[str, float]:
        """Counts, and seconds over the latest ticks."""
        latest = slice(0, max(1, min(self.ticks, _LATEST)))
        late, took = self._late[latest], self._took[latest]
        return {
            "ticks": float(self.ticks),
            "ticks_skipped": float(self.skipped),
            "tick_late_p50_seconds": float(np.percentile(late, 50)),
            "tick_late_p99_seconds": float(np.percentile(late, 99)),
            "tick_late_max_seconds": float(late.max()),
            "tick_took_p50_seconds": float(np.percentile(took, 50)),
            "tick_took_p99_seconds": float(np.percentile(took, 99)),
        }
