"""Timestamps going out."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from server.transport.webrtc.opus import CLOCK
from server.transport.webrtc.sender import Timeline

MS = 1_000_000
FRAME = CLOCK // 50
sends = st.lists(st.integers(0, 3_000 * MS), min_size=1, max_size=100)


def stamps(gaps: list[int]) -> list[tuple[int, bool]]:
    timeline = Timeline(FRAME)
    return [timeline.stamp(now) for now in accumulate(gaps)]


@given(sends)
def test_timestamps_rise_in_whole_frames_and_skip_some_only_at_the_end_of_a_pause(
    gaps: list[int],
) -> None:
    stamped = stamps(gaps)
    assert stamped[0] == (0, True)
    for (earlier, _), (later, first) in pairwise(stamped):
        step = later - earlier
        assert step % FRAME == 0
        assert step > FRAME if first else step == FRAME


@given(sends)
def test_they_are_never_behind_the_clock_by_more_than_the_slack(gaps: list[int]) -> None:
    for (stamp, _), now in zip(stamps(gaps), accumulate(gaps), strict=True):
        behind = (now - gaps[0]) * CLOCK / 1e9 - stamp
        assert behind < 4 * FRAME


@given(st.lists(st.integers(-19 * MS, 19 * MS), min_size=2, max_size=100))
def test_jitter_does_not_show(jitter: list[int]) -> None:
    timeline = Timeline(FRAME)
    due = [20 * MS * k + 20 * MS + wobble for k, wobble in enumerate(jitter)]
    assert [timeline.stamp(now)[0] for now in due] == [FRAME * k for k in range(len(due))]


def test_a_pause_moves_them_on() -> None:
    assert stamps([0, 20 * MS, 1_000 * MS]) == [(0, True), (FRAME, False), (51 * FRAME, True)]
