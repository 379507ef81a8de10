"""How long a lost process is waited for, over every way that they are lost."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.process import FIRST_WAIT, LONGEST_WAIT, STEADY, Backoff

ran = st.floats(0.0, 3 * STEADY)


@given(st.lists(ran, min_size=2, max_size=40))
def test_each_wait_is_twice_the_last_up_to_a_bound_unless_one_ran_steadily(
    ran: list[float],
) -> None:
    backoff, waits = Backoff(), []
    for seconds in ran:
        backoff.ran(seconds)
        waits.append(backoff.wait())
    assert waits[0] == FIRST_WAIT
    for seconds, (before, now) in zip(ran[1:], pairwise(waits), strict=True):
        assert now == (FIRST_WAIT if seconds > STEADY else min(2 * before, LONGEST_WAIT))
