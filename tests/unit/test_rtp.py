"""RTP packets: read and written as aiortc does, and garbage is refused."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from aiortc import clock
from aiortc.rtp import HeaderExtensionsMap, RtpPacket, is_rtcp
from hypothesis import given
from hypothesis import strategies as st

from server.transport.webrtc.rtp import Packet, is_rtp, ntp, parse, serialize

packets = st.builds(
    Packet,
    sequence_number=st.integers(0, 0xFFFF),
    timestamp=st.integers(0, 0xFFFF_FFFF),
    payload=st.binary(max_size=300),
    payload_type=st.integers(0, 127),
    ssrc=st.integers(0, 0xFFFF_FFFF),
    marker=st.booleans(),
)


@given(packets)
def test_what_is_written_is_read(packet: Packet) -> None:
    assert parse(serialize(packet)) == packet


@given(packets, st.integers(0, 15), st.integers(0, 255), st.booleans())
def test_what_others_write_is_read(packet: Packet, sources: int, padding: int, mid: bool) -> None:
    theirs = RtpPacket(
        packet.payload_type,
        int(packet.marker),
        packet.sequence_number,
        packet.timestamp,
        packet.ssrc,
        packet.payload,
    )
    theirs.csrc, theirs.padding_size = [7] * sources, padding
    theirs.extensions.mid = "audio" if mid else None
    extensions = HeaderExtensionsMap()
    extensions._HeaderExtensionsMap__ids.mid = 1  # type: ignore[attr-defined]
    assert parse(theirs.serialize(extensions)) == packet


@given(st.binary(max_size=60), st.integers(0, 60))
def test_garbage_is_read_or_refused(garbage: bytes, cut: int) -> None:
    for data in (garbage, b"\xbf" + garbage, serialize(Packet(1, 2, garbage))[:cut]):
        with suppress(ValueError):
            assert len(parse(data).payload) <= len(data)


def test_what_is_cut_short_is_refused() -> None:
    for header in (
        b"\x80",
        b"\x90" + bytes(13),
        b"\x81" + bytes(14),
        b"\xa0" + bytes(10) + b"\xff",
    ):
        with pytest.raises(ValueError, match="expected an RTP packet"):
            parse(header)


@given(packets.filter(lambda packet: not 64 <= packet.payload_type < 96))
def test_rtp_is_told_from_what_shares_its_port(packet: Packet) -> None:
    assert is_rtp(serialize(packet)) and not is_rtcp(serialize(packet))
    for other in (b"", b"\x80", b"\x80\xc8", b"\x80\xc9", b"\x16\xfe", b"\x00\x01", b"\x40\x00"):
        assert not is_rtp(other)


def test_reports_tell_the_time_in_ntp() -> None:
    assert abs(ntp(time.time()) - clock.current_ntp_time()) / 2**32 < 0.1
