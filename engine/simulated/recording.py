"""The last minute that a session heard, to cut turns out of."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from engine.contract import Samples

_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Heard:
    """Sound whose first sample is at position ``at``."""

    at: int
    pcm: Samples


class Recording:
    """Sound at ``rate`` Hz by position; sound that was dropped on the way is not in it."""

    def __init__(self, rate: int) -> None:
        self._limit = rate * _SECONDS
        self._pieces: deque[Heard] = deque()
        self.end = 0
        """The position behind the last sample."""

    def append(self, heard: Heard) -> None:
        """Adds the sound that follows."""
        self._pieces.append(heard)
        self.end = heard.at + len(heard.pcm)
        self.forget(self.end - self._limit)

    def forget(self, before: int) -> None:
        """Lets go of the pieces that end before a position."""
        while self._pieces and self._pieces[0].at + len(self._pieces[0].pcm) <= before:
            self._pieces.popleft()

    def cut(self, start: int, end: int) -> Samples:
        """What was heard from ``start`` to ``end``."""
        pieces = [p.pcm[max(start - p.at, 0) : max(end - p.at, 0)] for p in self._pieces]
        return np.concatenate([np.zeros(0, np.float32), *pieces])
