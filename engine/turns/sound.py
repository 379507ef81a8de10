"""The caller's sound of the last minute, found again by its position.

Detectors want it in chunks, recognisers in takes; both speak of it by input samples. Whatever was
lost on the way in is silence here, so that positions stay true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.contract import Samples


class CallerSound:
    """A ring of the newest samples.

    Args:
        capacity: samples kept; what is older is forgotten.
        chunk: samples of a detector's step.
    """

    def __init__(self, capacity: int, chunk: int) -> None:
        self._ring = np.zeros(capacity, np.float32)
        self._chunk = chunk
        self._judged = 0
        self.end = 0
        """Position after the newest sample."""

    def append(self, pcm: Samples) -> None:
        """Adds samples, at most the capacity."""
        places = np.arange(self.end, self.end + len(pcm)) % len(self._ring)
        self._ring[places] = pcm
        self.end += len(pcm)

    def skip(self, samples: int) -> None:
        """``samples`` were lost: they are silence that no detector judges."""
        kept = min(samples, len(self._ring))
        self.end += samples - kept
        self.append(np.zeros(kept, np.float32))
        self._judged = self.end

    def chunks(self) -> Iterator[tuple[int, Samples]]:
        """The whole chunks that were not given out yet, each with its position."""
        while self.end - self._judged >= self._chunk:
            at, self._judged = self._judged, self._judged + self._chunk
            yield at, self.take(at, self._judged)

    def take(self, start: int, end: int) -> Samples:
        """The samples from ``start`` to ``end``, without what is forgotten or not there yet."""
        start = max(start, self.end - len(self._ring), 0)
        end = min(end, self.end)
        return self._ring[np.arange(start, max(start, end)) % len(self._ring)]
