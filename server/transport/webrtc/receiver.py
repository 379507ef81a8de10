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
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from server.transport.leg import Frame
from server.transport.webrtc.incoming import Incoming
from server.transport.webrtc.opus import OpusDecoder
from server.transport.webrtc.telephone_events import TelephoneEvents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from server.transport.webrtc.rtp import Packet

_HELD = 100
"""Frames kept for a reader that is late: two seconds."""


class Receiver:
    """One caller's sound.

    Args:
        rate: Hz, one of :data:`server.transport.webrtc.opus.RATES`.
        failed: told what went wrong, which is our fault, with a packet or without one.
        library: path of the libopus that an operator chose.
    """

    def __init__(self, rate: int, failed: Callable[[Exception], None], library: str = "") -> None:
        self.rate = rate
        self._failed = failed
        self._decoder = OpusDecoder(rate, library)
        self._incoming = Incoming(self._decoder)
        self._keys = TelephoneEvents()
        self._frames: deque[Frame] = deque(maxlen=_HELD)
        self._arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._look: asyncio.TimerHandle | None = None
        self._over = False
        self.concealed = 0
        """Samples made up for lost ones."""
        self.dropped = 0
        """Frames pushed out because the reader was late."""
        self.pressed = 0
        """Keys."""

    def take(self, packet: Packet) -> None:
        """Takes a packet as it comes from the network."""
        if not self._over and packet.payload:
            self._keep(partial(self._incoming.push, packet))

    def press(self, packet: Packet) -> None:
        """Takes a packet of a key that is pressed."""
        if not self._over:
            self._keep(partial(self._incoming.skip, packet))
            if key := self._keys.push(packet):
                self.pressed += 1
                self._add(Frame(np.zeros(0, np.int16), pressed=key))

    async def frames(self) -> AsyncIterator[Frame]:
        """The sound as it comes, until :meth:`end`."""
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
        self._decoder.close()
        if self._look is not None:
            self._look.cancel()

    def stats(self) -> dict[str, float]:
        """Counters."""
        return {
            "packets_in": self._incoming.received,
            "lost_in": self._incoming.lost,
            "late_in": self._incoming.late,
            "concealed_in": self.concealed,
            "dropped_in": self.dropped,
            "keys_in": self.pressed,
        }

    def _keep(self, made: Callable[[int], list[Frame]]) -> None:
        """Keeps what is ``made`` now."""
        try:
            frames = made(time.monotonic_ns())
        except Exception as problem:
            self._failed(problem)
            return
        for frame in frames:
            self.concealed += frame.concealed
            self._add(frame)
        self._watch()

    def _add(self, frame: Frame) -> None:
        self.dropped += len(self._frames) == _HELD
        self._frames.append(frame)
        self._arrived.set()

    def _watch(self) -> None:
        """Looks again when it may be time to go on without a packet.

        A look that comes too early, because packets came meanwhile, is cheaper than another timer
        for each of them.
        """
        due = self._incoming.due()
        if due is None:
            return
        at = due / 1e9
        if self._look is None or at < self._look.when():
            if self._look is not None:
                self._look.cancel()
            self._look = self._loop.call_at(at, self._pass)

    def _pass(self) -> None:
        self._look = None
        self._keep(self._incoming.poll)
