"""A fader: sound goes away and comes back without a click, however it is cut into frames."""

from __future__ import annotations

import numpy as np

from engine.contract import Samples


class Fader:
    """Scales sound by a gain that glides between 0 and 1 along half a cosine.

    Args:
        length: samples from full to silent, and back.

    Raises:
        ValueError: the length is not positive.
    """

    def __init__(self, length: int) -> None:
        if length < 1:
            raise ValueError(f"length: expected at least 1 sample, got {length}")
        steps = np.arange(length + 1, dtype=np.float64) / length
        self._curve = (0.5 - 0.5 * np.cos(np.pi * steps)).astype(np.float32)
        self._at = length
        self._step = 1

    @property
    def silent(self) -> bool:
        """Everything pushed from here on comes out as zeros."""
        return self._at == 0 and self._step < 0

    @property
    def open(self) -> bool:
        """Everything pushed from here on comes out as it is."""
        return self._at == len(self._curve) - 1 and self._step > 0

    def down(self) -> None:
        """Fades out from the next sample on, from wherever the gain stands."""
        self._step = -1

    def up(self) -> None:
        """Fades in from the next sample on, from wherever the gain stands."""
        self._step = 1

    def push(self, pcm: Samples) -> Samples:
        """``pcm`` with the gain on it, as many samples; the input is left as it was."""
        if self.open:
            return pcm
        steps = self._at + self._step * np.arange(1, len(pcm) + 1)
        gains = self._curve[np.clip(steps, 0, len(self._curve) - 1)]
        self._at = min(max(self._at + self._step * len(pcm), 0), len(self._curve) - 1)
        return pcm * gains
