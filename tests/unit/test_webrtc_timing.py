"""Timestamps going out."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

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
