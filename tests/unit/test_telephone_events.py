"""Keys that a caller presses: each is told once, whichever of its packets come."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from server.transport.webrtc.rtp import Packet
from server.transport.webrtc.telephone_events import TelephoneEvents

KEYS = "0123456789*#ABCD"
presses = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.lists(st.booleans(), min_size=6, max_size=6).filter(lambda lost: not all(lost)),
    ),
    max_size=20,
)
"""Keys, and which of the packets of each are lost."""


def packets(
    key: str, timestamp: int, durations: tuple[int, ...] = (960, 1920, 2880)
) -> list[Packet]:
    """A press of ``key`` at ``timestamp``: its last packet is sent three times."""
    last = durations[-1]
    said = [(each, False) for each in durations] + 3 * [(last, True)]
    return [
        Packet(
            0,
            timestamp & 0xFFFF_FFFF,
            struct.pack("!BBH", KEYS.index(key), 0x80 * end | 10, duration),
        )
        for duration, end in said
    ]


def heard(*runs: list[Packet]) -> str:
    events = TelephoneEvents()
    return "".join(events.push(packet) for run in runs for packet in run)


@given(presses, st.integers(0, 2**32 - 1))
def test_each_press_is_told_once_however_much_of_it_is_lost(
    keys: list[tuple[str, list[bool]]], first: int
) -> None:
    runs = [
        [each for each, gone in zip(packets(key, first + n * 9_600), lost, strict=True) if not gone]
        for n, (key, lost) in enumerate(keys)
    ]
    assert heard(*runs) == "".join(key for key, _ in keys)


def test_what_comes_late_is_not_told_again() -> None:
    one, two = packets("1", 0), packets("2", 9_600)
    assert heard(one[:2], two[:3], one[2:], two[3:]) == "12"


def test_a_key_held_long_is_one_press_and_the_next_is_another() -> None:
    run = packets("5", 0, (960, 0xFFFF))[:2]
    rest = packets("5", 0xFFFF, (960, 1920))
    assert heard(run, rest, packets("5", 400_000)) == "55"


@given(st.binary(max_size=8))
def test_what_is_no_key_is_not_told(payload: bytes) -> None:
    key = TelephoneEvents().push(Packet(0, 0, payload))
    assert key == "" or (len(payload) >= 4 and KEYS[payload[0]] == key)
