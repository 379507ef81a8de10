"""Timestamps going out, and gaps coming in."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from server.transport.webrtc.receiver import Gaps
from server.transport.webrtc.sender import FRAME, RATE, Timeline

MS = 1_000_000
sends = st.lists(st.integers(0, 3_000 * MS), min_size=1, max_size=100)


def stamps(gaps: list[int]) -> list[int]:
    timeline = Timeline(FRAME, RATE)
    return [timeline.stamp(now) for now in accumulate(gaps)]


@given(sends)
def test_timestamps_rise_in_whole_frames(gaps: list[int]) -> None:
    stamped = stamps(gaps)
    assert stamped[0] == 0
    steps = [later - earlier for earlier, later in pairwise(stamped)]
    assert all(step >= FRAME and step % FRAME == 0 for step in steps)


@given(sends)
def test_they_are_never_behind_the_clock_by_more_than_the_slack(gaps: list[int]) -> None:
    for stamp, now in zip(stamps(gaps), accumulate(gaps), strict=True):
        behind = (now - gaps[0]) * RATE / 1e9 - stamp
        assert behind < 4 * FRAME


@given(st.lists(st.integers(-19 * MS, 19 * MS), min_size=2, max_size=100))
def test_jitter_does_not_show(jitter: list[int]) -> None:
    timeline = Timeline(FRAME, RATE)
    due = [20 * MS * k + 20 * MS + wobble for k, wobble in enumerate(jitter)]
    assert [timeline.stamp(now) for now in due] == [FRAME * k for k in range(len(due))]


def test_a_pause_moves_them_on() -> None:
    assert stamps([0, 20 * MS, 1_000 * MS]) == [0, FRAME, 51 * FRAME]


def test_a_gap_is_what_lies_between_two_frames() -> None:
    gaps = Gaps()
    assert [gaps.before(t, 960) for t in (5_000, 5_960, 8_840, 9_800)] == [0, 0, 1_920, 0]


@given(st.lists(st.integers(0, 2**33), max_size=50))
def test_a_gap_is_never_negative_nor_longer_than_a_second(timestamps: list[int]) -> None:
    gaps = Gaps()
    assert all(0 <= gaps.before(t, 960) <= 48_000 for t in timestamps)
