"""The way in of a call: decoded frames of the stock receiver become mono sound, without pause.

The track is drained whether anyone listens or not: an undrained track grows without end. What is
lost on the way shows as a jump of the timestamps; it is filled with silence, so that the caller's
time stays the caller's time, and counted as concealed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from server.transport.leg import Frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiortc.mediastreams import MediaStreamTrack

RATE = 48_000
_HELD = 50
"""Frames kept for a reader that is late: one second."""
_LONGEST_GAP = RATE
"""Samples of silence put in for one gap at most."""


class Gaps:
    """How much sound is missing before each frame, by its timestamp. Pure."""

    def __init__(self) -> None:
        self._next: int | None = None

    def before(self, timestamp: int, samples: int) -> int:
        """Samples missing before a frame of ``samples`` at ``timestamp``; 0 for the first."""
        missing = 0 if self._next is None else max(0, timestamp - self._next)
        self._next = timestamp + samples
        return min(missing, _LONGEST_GAP)


class Receiver:
    """Reads one inbound track to its end."""

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque(maxlen=_HELD)
        self._arrived = asyncio.Event()
        self._over = False
        self.received = 0
        """Frames read from the track."""
        self.concealed = 0
        """Samples of silence put in for lost ones."""
        self.dropped = 0
        """Frames pushed out because the reader was late."""

    async def drain(self, track: MediaStreamTrack) -> None:
        """Reads ``track`` until it ends."""
        gaps = Gaps()
        try:
            while True:
                frame = await track.recv()
                if isinstance(frame, AudioFrame):
                    missing = gaps.before(frame.pts or 0, frame.samples)
                    self._take(_mono(frame, missing))
        except MediaStreamError:
            return

    async def frames(self) -> AsyncIterator[Frame]:
        """The frames as they come, until :meth:`end`."""
        while True:
            while self._frames:
                yield self._frames.popleft()
            if self._over:
                return
            self._arrived.clear()
            await self._arrived.wait()

    def end(self) -> None:
        self._over = True
        self._arrived.set()

    def _take(self, frame: Frame) -> None:
        self.received += 1
        self.concealed += frame.concealed
        self.dropped += len(self._frames) == _HELD
        self._frames.append(frame)
        self._arrived.set()


def _mono(frame: AudioFrame, missing: int) -> Frame:
    """Packed 16-bit sound of any number of channels as mono, behind ``missing`` of silence."""
    channels = frame.layout.nb_channels
    sound = frame.to_ndarray().reshape(-1, channels).mean(axis=1, dtype=np.float32)
    pcm = np.zeros(missing + len(sound), np.float32)
    pcm[missing:] = sound * np.float32(1 / 32768)
    return Frame(pcm, concealed=missing)
