"""The way out of a call: sound becomes Opus packets the moment it is handed over, and they leave.

Nothing waits here, so a reply that is cut is cut at once; and where there is nothing to hear,
nothing is coded, sent or paid for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

import numpy as np

from server.transport.webrtc.opus import CLOCK, EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.contract import Samples

RATE = 24_000


class Encoder(Protocol):
    """What frames are coded by."""

    def encode(self, pcm: Samples) -> bytes: ...

    def expect_loss(self, percent: int) -> None: ...

    def close(self) -> None: ...


class Timeline:
    """RTP timestamps of frames, from 0, each ``frame`` of them long. Pure.

    Frames that follow each other are exactly one frame apart, however unsteadily they come: that
    is jitter, which the receiver evens out. After a pause of more than ``slack`` frames the
    timestamp has moved with the wall clock, in whole frames, so that the receiver neither
    stretches nor hurries.
    """

    def __init__(self, frame: int, slack: int = 3) -> None:
        self._frame = frame
        self._slack = slack
        self._epoch = 0
        self._next: int | None = None

    def stamp(self, now: int) -> tuple[int, bool]:
        """The timestamp of a frame sent ``now`` (nanoseconds, any epoch, never going back), and
        whether it is the first after a pause.
        """
        first = self._next is None
        if self._next is None:
            self._epoch, self._next = now, 0
        passed = (now - self._epoch) * CLOCK // (1_000_000_000 * self._frame)
        if passed - self._next // self._frame > self._slack:
            self._next, first = passed * self._frame, True
        stamp = self._next
        self._next += self._frame
        return stamp, first


class Sender:
    """Sends a call's sound: mono at ``RATE`` Hz, in frames or in any other pieces.

    What is over a whole packet waits for the next piece.

    Args:
        encoder: codes it.
        frame: samples of a packet.
        out: sends a packet: what it holds, its timestamp, and the marker of the first one after a
            pause (RFC 3551 section 4.1). False: it could not.
    """

    def __init__(
        self, encoder: Encoder, frame: int, out: Callable[[bytes, int, bool], bool]
    ) -> None:
        self._encoder = encoder
        self._frame = frame
        self._out = out
        self._timeline = Timeline(frame * CLOCK // RATE)
        self._rest = np.zeros(0, np.float32)
        self._pause = self._over = False
        self.sent = 0
        """Samples handed to the network."""
        self.dropped = 0
        """Packets that there was no way to send."""

    def send(self, pcm: Samples) -> None:
        """Codes and sends sound; after the end it is dropped."""
        if self._over:
            return
        sound = np.concatenate([self._rest, pcm]) if len(self._rest) else pcm
        whole = len(sound) - len(sound) % self._frame
        for start in range(0, whole, self._frame):
            self._send(sound[start : start + self._frame])
        self._rest = sound[whole:]

    def lost(self, share: float) -> None:
        """The peer lost that share of the last packets."""
        if not self._over:
            self._encoder.expect_loss(round(100 * share))

    def end(self) -> None:
        """Sends no more; safe to call twice."""
        self._over = True
        self._encoder.close()

    def _send(self, pcm: Samples) -> None:
        packet = self._encoder.encode(pcm)
        stamp, first = self._timeline.stamp(time.monotonic_ns())
        self._pause |= first
        self.sent += self._frame
        if len(packet) <= EMPTY:
            self._pause = True
        elif self._out(packet, stamp, self._pause):
            self._pause = False
        else:
            self.dropped += 1
