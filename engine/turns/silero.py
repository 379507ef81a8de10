"""Silero's voice activity detector: is somebody speaking in these 32 ms?

The network is shared by all callers; what it remembers of one caller's sound (its recurrent state
and the last 4 ms) is a :class:`SileroStream`. A chunk costs 0.4 ms of a core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.onnx import Network, scalar

if TYPE_CHECKING:
    from pathlib import Path

    from engine.contract import Samples

RATE = 16_000
"""Hz, of the sound it takes."""

CHUNK = 512
"""Samples it judges at a time."""

_CONTEXT = 64
"""Samples before the chunk that the network wants to see again."""


class SileroDetector:
    """The network, loaded once."""

    def __init__(self, model: Path) -> None:
        self._network = Network(model)

    def stream(self) -> SileroStream:
        """A fresh ear for one caller."""
        return SileroStream(self._network)


class SileroStream:
    """One caller's sound as the detector follows it."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._rate = np.array(RATE, np.int64)
        self.reset()

    def reset(self) -> None:
        """Forgets what it has heard."""
        self._state = np.zeros((2, 1, 128), np.float32)
        self._context = np.zeros(_CONTEXT, np.float32)

    def judge(self, chunk: Samples) -> float:
        """The probability, 0..1, that the next ``CHUNK`` samples are speech."""
        heard = np.concatenate([self._context, chunk])
        probability, self._state = self._network(
            {"input": heard[np.newaxis], "state": self._state, "sr": self._rate}
        )
        self._context = heard[-_CONTEXT:]
        return scalar(probability)
