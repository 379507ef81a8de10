"""What cannot be said yet waits in order, within bounds, and is given out once."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.owed import MOST, Owed
from server.requests import RequestError


@given(st.lists(st.booleans(), max_size=60))
def test_texts_come_in_order_once_and_no_more_wait_than_may(adds: list[bool]) -> None:
    owed = Owed()
    waiting: deque[str] = deque()
    for number, add in enumerate(adds):
        if not add:
            assert owed.text() == (waiting.popleft() if waiting else None)
        elif len(waiting) < MOST:
            owed.add(str(number))
            waiting.append(str(number))
        else:
            with pytest.raises(RequestError) as refused:
                owed.add(str(number))
            assert refused.value.code == "too_many_appends"
    assert [owed.text() for _ in waiting] == [*waiting]
    assert owed.text() is None


def test_the_rest_of_a_reply_is_asked_for_once_by_the_turn_that_cut_it() -> None:
    owed = Owed()
    owed.cut_short("t1", "three four")
    owed.cut_short("t2", None)
    owed.cut_short("t3", "")
    assert (owed.rest("t2"), owed.rest("t1"), owed.rest("t1"), owed.rest("t3")) == (
        None,
        "three four",
        None,
        "",
    )
