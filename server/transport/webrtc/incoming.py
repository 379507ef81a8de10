"""The sound of a stream of packets: in order, without gaps, on the sender's own time. Pure.

A caller's time is the timestamps of their packets. What was lost is taken from the packet behind it
(FEC) or made up, for :data:`CONCEALED` at most, and then silent. What was never sent, because a
caller who is silent need not send (DTX), is silence; it does not wait for the next packet, but runs
:data:`BEHIND` behind the clock. Sound that comes after its time was filled comes too late.

A packet that holds nothing says that nothing follows: then silence runs :data:`SOON` behind the
clock, and whoever waits for the end of a turn waits no longer than for a caller who sends on. Sound
that comes a little behind such silence is heard all the same, and as much of the next silence is
left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from engine.contract import Sound
from server.transport.leg import Frame
from server.transport.webrtc.opus import CLOCK, EMPTY, OpusError
from server.transport.webrtc.reorder import LONGEST, MS, Ordered, Reorder, signed
from server.transport.webrtc.rtp import Packet

CONCEALED = 0.1
"""Seconds."""
BEHIND = 200 * MS
"""Nanoseconds after it was due that sound which has not come is filled: more than any wait."""
SOON = 5 * MS
"""The same, in nanoseconds, once the caller has said that nothing follows."""
_STEP = 20 * MS
_LONGEST_GAP = 1.0
"""Seconds of one gap that are filled; a longer one is another stream's beginning."""
_FOLLOWS = 500
"""Packets over which the mapping from timestamps to arrivals follows slower ones: ten seconds."""
_TOO_LATE = 500 * MS
"""Nanoseconds of late sound after which it is the caller's time that has moved."""


class Decoder(Protocol):
    """What the packets are decoded by."""

    rate: int

    def decode(self, packet: bytes) -> Sound: ...

    def recover(self, packet: bytes, samples: int) -> Sound: ...

    def conceal(self, samples: int) -> Sound: ...


class Incoming:
    """One caller's sound; times are nanoseconds on any clock that does not go back."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._reorder = Reorder()
        self._unit = CLOCK // decoder.rate
        self._expected: int | None = None  # timestamp
        self._arrives = 0  # when the sound at ``_expected`` is due
        self._frame = decoder.rate // 50  # samples of the latest packet
        self._longest = LONGEST * decoder.rate // (1000 * MS)
        self._late_since = 0
        self._quiet = False
        self._filled = 0  # samples of silence since the caller said that nothing follows
        self._surplus = 0  # samples of silence beyond the caller's time
        self.received = self.lost = self.late = 0
        """Packets: taken, never come, and come too late."""

    def push(self, packet: Packet, now: int) -> list[Frame]:
        """Takes a packet; returns the sound that it completes."""
        self.received += 1
        return self._decoded(self._reorder.push(packet, now), now)

    def skip(self, packet: Packet, now: int) -> list[Frame]:
        """Takes a packet of the same stream that holds no sound; returns what it completes."""
        return self._decoded(self._reorder.push(packet._replace(payload=b""), now), now)

    def due(self) -> int | None:
        """When :meth:`poll` has something to do, unless a packet comes before; None: never."""
        gap = self._reorder.due()
        fill = None if self._expected is None else self._arrives + self._behind
        return fill if gap is None else gap if fill is None else min(gap, fill)

    def poll(self, now: int) -> list[Frame]:
        """Gives up waiting for what does not come."""
        frames = self._decoded(self._reorder.poll(now), now)
        while self._expected is not None and now - self._arrives >= self._behind:
            samples = _STEP * self._decoder.rate // (1000 * MS)
            self._filled += samples
            frames += self._silence(samples)
        return frames

    @property
    def _behind(self) -> int:
        return SOON if self._quiet else BEHIND

    def _decoded(self, ordered: list[Ordered], now: int) -> list[Frame]:
        frames: list[Frame] = []
        for packet, lost in ordered:
            self.lost += lost
            frames += self._sound(packet, lost, now)
        return frames

    def _sound(self, packet: Packet, lost: int, now: int) -> list[Frame]:
        at = packet.timestamp
        if not packet.payload:
            return []
        if self._expected is None:
            self._expected, self._arrives = at, now
        missing = signed(at - self._expected, 32) // self._unit
        if self._quiet and -min(self._filled, self._longest) <= missing < 0:
            self._move(missing)
            self._surplus, missing = self._surplus - missing, 0
        if missing < 0:
            self.late += 1
            self._late_since = self._late_since or now
            if now - self._late_since < _TOO_LATE:
                return []
        if missing < 0 or missing > _LONGEST_GAP * self._decoder.rate:
            self._expected, self._arrives, missing = at, now, 0
        self._late_since = 0
        frames = self._fill(packet, missing, lost) if missing else []
        try:
            pcm = self._decoder.decode(packet.payload)
        except OpusError:
            return frames
        self._frame = len(pcm)
        self._quiet, self._filled = len(packet.payload) <= EMPTY, 0
        # The mapping from timestamps to arrivals follows the fastest packet, and a slower clock.
        self._arrives += min(now - self._arrives, (now - self._arrives) // _FOLLOWS)
        self._move(len(pcm))
        return [*frames, Frame(pcm)]

    def _fill(self, packet: Packet, missing: int, lost: int) -> list[Frame]:
        """``missing`` samples before ``packet``: silence, but for what ``lost`` packets held."""
        if not lost:
            return self._silence(missing)
        concealed = min(missing, round(CONCEALED * self._decoder.rate))
        recovered = min(self._frame, concealed)
        frames: list[Frame] = []
        for done in range(0, concealed - recovered, self._frame):
            samples = min(self._frame, concealed - recovered - done)
            frames.append(self._made_up(samples, partial(self._decoder.conceal, samples)))
        if missing > concealed:
            frames += self._silence(missing - concealed)
        recover = partial(self._decoder.recover, packet.payload, recovered)
        return [*frames, self._made_up(recovered, recover)]

    def _made_up(self, samples: int, make: Callable[[], Sound]) -> Frame:
        try:
            pcm = make()
        except OpusError:
            pcm = np.zeros(samples, np.int16)
        self._move(len(pcm))
        return Frame(pcm, concealed=len(pcm))

    def _silence(self, samples: int) -> list[Frame]:
        self._move(samples)
        too_much = min(samples, self._surplus)
        self._surplus -= too_much
        return [Frame(np.zeros(samples - too_much, np.int16))] if samples > too_much else []

    def _move(self, samples: int) -> None:
        assert self._expected is not None
        self._expected += samples * self._unit
        self._arrives += samples * 1000 * MS // self._decoder.rate
