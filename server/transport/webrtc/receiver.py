"""The way in of a call: its packets become mono sound, in order and without pause.

Packets are decoded as they come, on the event loop, straight to the engine's rate: it takes 50 us
and saves the 80 ms, and after a loss the 280, that the stock receiver holds them. What they become
is :class:`server.transport.webrtc.incoming.Incoming`'s subject; this brings the packets and the
clock to it, and the sound to its reader.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from server.transport.webrtc.incoming import Incoming
from server.transport.webrtc.opus import OpusDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from server.transport.leg import Frame
    from server.transport.webrtc.reorder import Packet

_HELD = 100
"""Frames kept for a reader that is late: two seconds."""


class Receiver:
    """One caller's sound at ``rate`` Hz, one of :data:`server.transport.webrtc.opus.RATES`."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._decoder = OpusDecoder(rate)
        self._incoming = Incoming(self._decoder)
        self._frames: deque[Frame] = deque(maxlen=_HELD)
        self._arrived = asyncio.Event()
        self._over = False
        self.concealed = 0
        """Samples made up for lost ones."""
        self.dropped = 0
        """Frames pushed out because the reader was late."""

    def take(self, packet: Packet) -> None:
        """Takes a packet as it comes from the network."""
        if not self._over:
            self._keep(self._incoming.push(packet, time.monotonic_ns()))

    async def frames(self) -> AsyncIterator[Frame]:
        """The sound as it comes, until :meth:`end`."""
        while True:
            while self._frames:
                yield self._frames.popleft()
            if self._over:
                return
            self._arrived.clear()
            await self._wait()

    def end(self) -> None:
        self._over = True
        self._arrived.set()
        self._decoder.close()

    def stats(self) -> dict[str, float]:
        """Counters."""
        return {
            "packets_in": self._incoming.received,
            "lost_in": self._incoming.lost,
            "late_in": self._incoming.late,
            "concealed_in": self.concealed,
            "dropped_in": self.dropped,
        }

    async def _wait(self) -> None:
        """Waits for a packet, or until it is time to go on without one."""
        due = self._incoming.due()
        delay = None if due is None else max(0, due - time.monotonic_ns()) / 1e9
        try:
            async with asyncio.timeout(delay):
                await self._arrived.wait()
        except TimeoutError:
            self._keep(self._incoming.poll(time.monotonic_ns()))

    def _keep(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self.concealed += frame.concealed
            self.dropped += len(self._frames) == _HELD
            self._frames.append(frame)
            self._arrived.set()
