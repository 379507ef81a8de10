"""A caller for benches: a leg that speaks clips in real time and listens with a stop-watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import numpy as np

from engine.contract import Samples
from server.bench.corpus import RATE, Clip, room
from server.transport.leg import Frame

AUDIBLE = 0.01
"""Above it a sample of a reply is heard."""
FRAME = 0.02
"""Seconds per frame."""


class Caller:
    """Speaks and listens; implements :class:`server.transport.leg.Leg` without a network.

    Args:
        output_rate: Hz, of what it is sent.
        rng: its room's noise.
    """

    input_rate = RATE
    silent = 0.0

    def __init__(self, output_rate: int, rng: np.random.Generator) -> None:
        self.output_rate = output_rate
        self.spoke_until: float | None = None
        self.first_heard: float | None = None
        self.first_sent: float | None = None
        self._rng = rng
        self._speech = np.zeros(0, np.float32)
        self._left_to_end: int | None = None
        self._ended = False

    def say(self, clip: Clip) -> None:
        """Begins to speak; the stop-watch is reset."""
        self.spoke_until = self.first_heard = self.first_sent = None
        self._speech = clip.pcm
        self._left_to_end = clip.end

    async def frames(self) -> AsyncIterator[Frame]:
        due = time.monotonic()
        samples = round(FRAME * RATE)
        while not self._ended:
            due += FRAME
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            said, self._speech = self._speech[:samples], self._speech[samples:]
            if self._left_to_end is not None:
                self._left_to_end -= samples
                if self._left_to_end <= 0:
                    self.spoke_until = due + self._left_to_end / RATE
                    self._left_to_end = None
            yield Frame(np.concatenate((said, room(samples - len(said), self._rng))))

    def send(self, pcm: Samples) -> None:
        now = time.monotonic()
        self.first_sent = self.first_sent or now
        loud = np.flatnonzero(np.abs(pcm) > AUDIBLE)
        if self.first_heard is None and len(loud):
            self.first_heard = now + int(loud[0]) / self.output_rate

    def close(self) -> None:
        self._ended = True
