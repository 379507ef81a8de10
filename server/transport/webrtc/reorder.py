"""Packets in the order they were sent, after as little waiting as the network allows. Pure.

On a clean link nothing waits: a packet that follows the last one is passed on at once, and a gap is
a loss. Where packets overtake each other, a gap is waited for as long as they lately took to fill
one, at most :data:`LONGEST`; a while without any, nothing waits again.
"""

from __future__ import annotations

from typing import NamedTuple

from server.transport.webrtc.rtp import Packet

MS = 1_000_000
LONGEST = 120 * MS
"""Nanoseconds that a gap is waited for at most."""
_MARGIN = 5 * MS
_CALM = 1_500 * MS
"""Nanoseconds without packets out of order after which nothing waits."""
_HELD = 50
"""Packets that wait at most: a second of them."""
_JUMP = 1_000
"""Packets by which a number may jump before it is taken for another stream's."""


class Ordered(NamedTuple):
    """A packet, and how many before it never came."""

    packet: Packet
    lost: int = 0


class Reorder:
    """Times are nanoseconds on any clock that does not go back."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._held: dict[int, Packet] = {}
        self._gap_since = 0
        self._given_up: dict[int, int] = {}
        self._wait = self._calm_at = 0

    def push(self, packet: Packet, now: int) -> list[Ordered]:
        """Takes a packet; returns those whose turn it is."""
        if self._next is None:
            self._next = packet.sequence_number
        if not self._held and packet.sequence_number == self._next & 0xFFFF:
            self._next += 1
            return [Ordered(packet)]
        number = self._next + signed(packet.sequence_number - self._next, 16)
        if abs(number - self._next) > _JUMP:
            self._held.clear()
            self._next = number
        if number < self._next:
            if (since := self._given_up.pop(number & 0xFFFF, None)) is not None:
                self._overtaken(now - since, now)
            return []
        if number > self._next and not self._held:
            self._gap_since = now
        filled = number == self._next and bool(self._held)
        self._held[number] = packet
        if filled:
            self._overtaken(now - self._gap_since, now)
        ready = self._in_turn(0)
        if self._held and ready:
            self._gap_since = now
        return ready + self.poll(now)

    def due(self) -> int | None:
        """When a gap has been waited for long enough; None where there is none."""
        return self._gap_since + self._wait if self._held else None

    def poll(self, now: int) -> list[Ordered]:
        """Gives up on gaps that have lasted too long."""
        if now - self._calm_at >= _CALM:
            self._wait = 0
        passed: list[Ordered] = []
        while self._held and (now - self._gap_since >= self._wait or len(self._held) > _HELD):
            assert self._next is not None
            first = min(self._held)
            lost = range(self._next, first)
            self._given_up = {number & 0xFFFF: self._gap_since for number in lost[-_HELD:]}
            self._next = first
            passed += self._in_turn(len(lost))
            self._gap_since = now
        return passed

    def _in_turn(self, lost: int) -> list[Ordered]:
        """The packets that follow without a gap, the first of them behind ``lost``."""
        assert self._next is not None
        ready: list[Ordered] = []
        while (packet := self._held.pop(self._next, None)) is not None:
            ready.append(Ordered(packet, lost))
            self._next, lost = self._next + 1, 0
        return ready

    def _overtaken(self, late: int, now: int) -> None:
        """A packet came ``late`` behind one sent after it."""
        self._wait = min(LONGEST, max(self._wait, late + _MARGIN))
        self._calm_at = now


def signed(difference: int, bits: int) -> int:
    """``difference`` of two numbers of so many bits, the shorter way round."""
    half = 1 << (bits - 1)
    return (difference + half) % (1 << bits) - half
