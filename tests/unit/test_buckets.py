"""What token buckets promise, however callers come and go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.buckets import Buckets

MINUTE = 60_000_000_000
PER_MINUTE = 30
COST = MINUTE // PER_MINUTE

gaps = st.lists(st.integers(0, 3 * COST), min_size=1, max_size=200)
asked = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, COST)), max_size=300)


@given(gaps)
def test_in_no_stretch_of_time_is_more_taken_than_a_bucket_and_what_flows_in(
    gaps: list[int],
) -> None:
    buckets, now, taken = Buckets(PER_MINUTE), 0, []
    for gap in gaps:
        now += gap
        if not buckets.wait("a", 1, now):
            buckets.take("a", 1, now)
            taken.append(now)
    for first, began in enumerate(taken):
        for last, ended in enumerate(taken[first:], first):
            assert last - first + 1 <= PER_MINUTE + (ended - began) // COST


@given(st.floats(0, 1000), st.floats(0, PER_MINUTE), st.integers(0, 10 * MINUTE))
def test_after_the_wait_that_was_told_and_no_sooner_it_can_be_taken(
    debt: float, amount: float, now: int
) -> None:
    buckets = Buckets(PER_MINUTE)
    buckets.take("a", debt, now)
    wait = buckets.wait("a", amount, now)
    assert buckets.wait("a", amount, now + wait) == 0
    assert wait == 0 or buckets.wait("a", amount, now + wait - 1) > 0


@given(asked)
def test_each_caller_has_a_bucket_of_its_own(asked: list[tuple[str, int]]) -> None:
    shared, now = Buckets(PER_MINUTE), 0
    alone = {who: Buckets(PER_MINUTE) for who in "abcde"}
    for who, gap in asked:
        now += gap
        assert shared.wait(who, 1, now) == alone[who].wait(who, 1, now)
        shared.take(who, 1, now)
        alone[who].take(who, 1, now)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, COST)), max_size=300))
def test_however_many_come_a_bounded_number_is_remembered(asked: list[tuple[int, int]]) -> None:
    buckets, now = Buckets(PER_MINUTE, most=7), 0
    for who, gap in asked:
        now += gap
        buckets.take(str(who), 1, now)
        assert len(buckets) <= 7


def test_whoever_came_last_is_remembered_longest() -> None:
    buckets = Buckets(PER_MINUTE, most=2)
    for who in ("a", "b", "a", "c"):
        buckets.take(who, PER_MINUTE / 2, 0)
    assert buckets.wait("a", 1, 0) > 0
    assert buckets.wait("b", PER_MINUTE, 0) == 0


def test_a_bucket_that_is_full_again_is_forgotten() -> None:
    buckets = Buckets(PER_MINUTE)
    buckets.take("a", 1, 0)
    buckets.take("b", 1, COST)
    assert len(buckets) == 1


def test_a_limit_without_end_never_lets_anybody_wait() -> None:
    buckets = Buckets(float("inf"))
    buckets.take("a", 1e9, 0)
    assert buckets.wait("a", 1e9, 0) == 0
