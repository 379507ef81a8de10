"""The newest of the caller's sound, for a client that asks for what an item sounded like. Pure.

Thirty seconds are kept, so that the longest sound a client is given can be asked for until twenty
seconds after its end; as 16-bit samples that is 1 MB of a session at 16 kHz. What is older is
forgotten, whatever it belonged to.
"""

from __future__ import annotations

import numpy as np

from engine.audio.pcm import from_pcm16, to_pcm16
from engine.contract import Samples, Sound

KEPT = 30
"""Seconds."""
LONGEST = 10
"""Seconds of an item that a client is given the sound of: 640 KB of JSON, made at once on the loop
that carries every call, which takes some 10 ms of it."""
_TOGETHER = 50
"""Pieces that are packed at once: it is the calls that cost."""
_WIDTH = np.dtype(np.int16).itemsize


class Heard:
    """Sound by its position.

    Args:
        samples: kept at most; 0 keeps nothing.
    """

    __slots__ = ("_fresh", "_kept", "_limit", "end")

    def __init__(self, samples: int) -> None:
        self._limit = samples
        self._kept = bytearray()
        self._fresh: list[Sound] = []
        self.end = 0
        """Samples heard since the session began."""

    @property
    def start(self) -> int:
        """The oldest sample that is kept."""
        self._keep()
        return self.end - len(self._kept) // _WIDTH

    def push(self, sound: Sound) -> None:
        """Takes the next sound."""
        self.end += len(sound)
        if self._limit:
            if self._fresh and self._fresh[0].dtype != sound.dtype:
                self._keep()
            self._fresh.append(sound)
            if len(self._fresh) == _TOGETHER:
                self._keep()

    def cut(self, start: int, end: int) -> Samples | None:
        """The samples ``start`` to ``end``, or None where they are not all kept."""
        if not self.start <= start < end <= self.end:
            return None
        first, last = start - self.start, end - self.start
        return from_pcm16(bytes(self._kept[first * _WIDTH : last * _WIDTH]))

    def _keep(self) -> None:
        """Packs what came last, and forgets what is too old."""
        if self._fresh:
            self._kept += to_pcm16(np.concatenate(self._fresh)[-self._limit :])
            self._fresh = []
            del self._kept[: -self._limit * _WIDTH]
