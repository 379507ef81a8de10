"""What the clock promises, over every way that time can pass."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from engine.clock import Clock, Run, Wait

PERIOD = 80_000_000
gaps = st.lists(st.integers(0, 10**9), min_size=1, max_size=200)


@given(gaps)
def test_every_tick_is_run_or_skipped_exactly_once(gaps: list[int]) -> None:
    clock = Clock(PERIOD)
    runs = [due for now in accumulate(gaps) if isinstance(due := clock.poll(now), Run)]
    counted = sum(1 + run.skipped for run in runs)
    assert counted == (runs[-1].tick + 1 if runs else 0)


@given(gaps)
def test_a_late_tick_never_makes_a_burst(gaps: list[int]) -> None:
    clock = Clock(PERIOD)
    for now in accumulate(gaps):
        if isinstance(clock.poll(now), Run):
            assert isinstance(clock.poll(now), Wait)


@given(gaps)
def test_a_wait_ends_exactly_at_the_next_tick(gaps: list[int]) -> None:
    clock = Clock(PERIOD)
    for now in accumulate(gaps):
        due = clock.poll(now)
        if isinstance(due, Wait):
            assert due.nanoseconds > 0 and (now + due.nanoseconds) % PERIOD == 0


@given(st.integers(0, 10**6))
def test_it_does_not_drift(tick: int) -> None:
    assert Clock(PERIOD).poll(tick * PERIOD) == Run(tick=tick, skipped=tick)
