"""A text's words keep the text and fill the time."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from engine.cascade.words import spread, written


@given(st.text())
def test_the_words_joined_are_the_text(text: str) -> None:
    assert "".join(written(text)) == text
    assert all(word.strip() or word == text for word in written(text))


@given(st.text(min_size=1), st.integers(0, 10**6), st.integers(0, 10**6))
def test_they_fill_the_time_in_order(text: str, start: int, samples: int) -> None:
    words = spread(written(text), start, start + samples)
    assert words[0].start == start
    for word, following in itertools.pairwise(words):
        assert word.start <= word.end == following.start
    assert words[-1].end == (start + samples if text.strip() else start)
