"""What turns newcomers away: load that lasts, and nothing that passes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from server.overload import EASE, LATE, LOOKS, NEWCOMER, Busy, Look, Overload

MOST = 0.8
few = settings(max_examples=25)
PERIOD = 0.1


class Loop:
    """A loop that is looked at every tenth of a second."""

    def __init__(self, most: float = MOST) -> None:
        self.overload = Overload(most)
        self._at = self._cpu = 0.0

    def runs(self, looks: int, *, share: float = 0.0, late: float = 0.0) -> Busy | None:
        """Goes on like that for so many looks; its thread uses ``share`` of a core."""
        for _ in range(looks):
            self._at += PERIOD + late
            self._cpu += share * (PERIOD + late)
            self.overload.look(Look(self._at, self._cpu, late))
        return self.overload.busy


shares = st.floats(0.0, 1.0)
lags = st.floats(0.0, 10.0)


@few
@given(share=st.floats(MOST + 0.01, 1.0), before=shares)
def test_a_core_that_stays_full_turns_newcomers_away(share: float, before: float) -> None:
    loop = Loop()
    loop.runs(LOOKS, share=before)
    busy = loop.runs(LOOKS, share=share)
    assert busy is not None
    assert busy.reason == "cpu"
    assert f"{MOST:.0%}" in busy.why


@few
@given(late=st.floats(LATE * 1.01, 1.0))
def test_a_loop_that_stays_late_turns_newcomers_away(late: float) -> None:
    busy = Loop().runs(LOOKS, late=late)
    assert busy is not None
    assert busy.reason == "lag"
    assert f"{1000 * LATE:.0f} ms" in busy.why


@few
@given(late=lags, works=st.booleans(), before=st.integers(0, LOOKS))
def test_one_stall_turns_nobody_away_however_long(late: float, works: bool, before: int) -> None:
    """Work of the process itself counts, but for a moment."""
    loop = Loop()
    loop.runs(LOOKS + before, share=0.1)
    if works:
        late = min(late, 2.0)
    assert loop.runs(1, share=float(works), late=late) is None
    assert not any(loop.runs(1, share=0.1) for _ in range(LOOKS))


@few
@given(share=shares, late=lags, looks=st.integers(0, LOOKS - 1))
def test_a_start_turns_nobody_away(share: float, late: float, looks: int) -> None:
    assert Loop().runs(looks, share=share, late=late) is None


@few
@given(st.lists(st.tuples(shares, st.floats(0.0, 2 * LATE)), max_size=3 * LOOKS))
def test_newcomers_are_taken_again_only_once_load_is_well_below(
    course: list[tuple[float, float]],
) -> None:
    loop = Loop()
    loop.runs(LOOKS, share=1.0)
    course = [(1.0, 0.0)] * LOOKS + course
    judged = [loop.runs(1, share=share, late=late) for share, late in course]
    for number, (before, now) in enumerate(pairwise(judged), 1):
        last = course[max(0, number - LOOKS + 2) : number + 1]
        spent = sum(share * (PERIOD + late) for share, late in last)
        share = spent / sum(PERIOD + late for _, late in last)
        if before and not now:
            assert share <= EASE * MOST + 1e-9
        if now and now.reason == "cpu" and not before:
            assert share > MOST - 1e-9


@few
@given(share=st.floats(0.0, MOST - 0.1), came=st.integers(0, 100))
def test_calls_that_come_at_once_count_before_they_show(share: float, came: int) -> None:
    loop = Loop()
    loop.runs(LOOKS, share=share)
    for _ in range(came):
        loop.overload.came()
    expected = share + came * NEWCOMER
    if abs(expected - MOST) > 1e-6:
        assert bool(loop.overload.busy) == (expected > MOST)
    assert loop.runs(LOOKS, share=min(share, EASE * MOST - 0.01)) is None


@few
@given(share=st.floats(0.0, MOST - 0.001), came=st.integers(1, 100), looks=st.integers(0, 3))
def test_calls_that_were_not_had_leave_nothing(share: float, came: int, looks: int) -> None:
    loop, other = Loop(), Loop()
    for each in (loop, other):
        each.runs(LOOKS, share=share)
    for _ in range(came):
        loop.overload.came()
        loop.overload.failed()
    assert loop.overload.busy is None
    assert loop.runs(looks, share=share) == other.runs(looks, share=share)
    loop.overload.failed()


@few
@given(late=lags, came=st.integers(0, 100))
def test_who_wants_no_bound_has_none(late: float, came: int) -> None:
    loop = Loop(most=1.0)
    for _ in range(came):
        loop.overload.came()
    assert loop.runs(3 * LOOKS, share=1.0, late=late) is None
