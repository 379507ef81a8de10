"""The keys that a caller presses, which travel as packets of their own (RFC 4733). Pure.

A key is a run of packets with one timestamp; its last one is sent three times, and any may be lost.
It counts once, when the first of them comes that does. A key held for longer than a duration can
say goes on as another run (section 2.5.1.3), and is still the same.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from server.transport.webrtc.reorder import signed

if TYPE_CHECKING:
    from server.transport.webrtc.rtp import Packet

_EVENT = Struct("!BBH")
_KEYS = "0123456789*#ABCD"
_LONGEST = 0xFFFF


class TelephoneEvents:
    """One caller's keys."""

    def __init__(self) -> None:
        self._began: int | None = None  # timestamp of the latest run
        self._key = ""
        self._full = False  # its duration can grow no more

    def push(self, packet: Packet) -> str:
        """The key that is first heard of by ``packet``; empty: none is."""
        if len(packet.payload) < _EVENT.size:
            return ""
        event, _, duration = _EVENT.unpack_from(packet.payload)
        if event >= len(_KEYS):
            return ""
        began, key = packet.timestamp, _KEYS[event]
        passed = 1 if self._began is None else signed(began - self._began, 32)
        goes_on = self._full and key == self._key and passed == _LONGEST
        if passed >= 0:
            self._began, self._key, self._full = began, key, duration == _LONGEST
        return key if passed > 0 and not goes_on else ""
