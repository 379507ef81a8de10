"""The newest of the caller's sound is kept by its position, and no more of it than is stated."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.audio.pcm import from_int16
from server.heard import Heard

KEPT = 500


def sound(start: int, end: int) -> np.ndarray:
    """Tells every position by its value."""
    return from_int16(np.arange(start, end, dtype=np.int16))


@given(st.lists(st.integers(0, 900), max_size=12), st.integers(0, 6000), st.integers(0, 800))
def test_what_is_cut_out_is_what_was_heard_there(sizes: list[int], start: int, size: int) -> None:
    heard, at = Heard(KEPT), 0
    for more in sizes:
        heard.push(sound(at, at + more))
        at += more
    assert (heard.start, heard.end) == (max(0, at - KEPT), at)
    got = heard.cut(start, start + size)
    if size and at - KEPT <= start and start + size <= at:
        assert got is not None
        assert np.array_equal(got, sound(start, start + size))
    else:
        assert got is None


def test_where_nothing_is_kept_positions_count_all_the_same() -> None:
    heard = Heard(0)
    heard.push(sound(0, 100))
    assert (heard.start, heard.end, heard.cut(0, 100)) == (100, 100, None)
