"""RTP packets (RFC 3550 section 5.1), read and written in a few microseconds. Pure.

A call's sound is fifty packets a second each way, so what is done for each of them counts: only
what a voice needs is read, and header extensions are skipped.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

_HEADER = Struct("!BBHII")
_VERSION = 0x80
_MARKER = 0x80
_NTP_EPOCH = 2_208_988_800
"""Seconds from 1900 to 1970."""


class Packet(NamedTuple):
    """An RTP packet: its 16-bit ``sequence_number``, 32-bit ``timestamp``, and what it carries."""

    sequence_number: int
    timestamp: int
    payload: bytes
    payload_type: int = 0
    ssrc: int = 0
    marker: bool = False


def is_rtp(data: bytes) -> bool:
    """Whether a datagram is RTP; RTCP, STUN and DTLS share its port (RFC 5761, RFC 7983)."""
    return len(data) > 1 and data[0] & 0xC0 == _VERSION and not 64 <= data[1] & 0x7F < 96


def parse(data: bytes) -> Packet:
    """Reads a packet.

    Raises:
        ValueError: it is none, or is cut short.
    """
    if len(data) < _HEADER.size or data[0] & 0xC0 != _VERSION:
        raise ValueError("expected an RTP packet")
    first, second, sequence_number, timestamp, ssrc = _HEADER.unpack_from(data)
    start, end = _HEADER.size + 4 * (first & 0x0F), len(data)
    if first & 0x10:
        start += 4 + 4 * int.from_bytes(data[start + 2 : start + 4])
    if first & 0x20:
        end -= data[-1]
    if start > end:
        raise ValueError("expected an RTP packet, got a part of one")
    return Packet(
        sequence_number,
        timestamp,
        data[start:end],
        second & 0x7F,
        ssrc,
        bool(second & _MARKER),
    )


def serialize(packet: Packet) -> bytes:
    """Writes a packet."""
    kind = packet.payload_type | (_MARKER if packet.marker else 0)
    header = _HEADER.pack(_VERSION, kind, packet.sequence_number, packet.timestamp, packet.ssrc)
    return header + packet.payload


def ntp(seconds: float) -> int:
    """Unix ``seconds`` as a 64-bit NTP timestamp (RFC 3550 section 4)."""
    return int((seconds + _NTP_EPOCH) * (1 << 32))
