"""The fader, over every way to cut the sound and to change one's mind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audio.fade import Fader

moves = st.lists(st.tuples(st.sampled_from(("down", "up")), st.integers(0, 300)), max_size=20)


def ones(samples: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.ones(samples, np.float32)


@given(moves)
def test_the_gain_never_jumps(moves: list[tuple[str, int]]) -> None:
    fader = Fader(100)
    made = [ones(1)]
    for move, samples in moves:
        getattr(fader, move)()
        made.append(fader.push(ones(samples)))
    gains = np.concatenate(made)
    assert np.abs(np.diff(gains)).max(initial=0.0) <= np.pi / 2 / 100 + 1e-6


@given(st.lists(st.integers(0, 90), max_size=12))
def test_any_split_gives_the_same_samples(sizes: list[int]) -> None:
    whole, pieces = Fader(160), Fader(160)
    whole.down()
    pieces.down()
    cut = [pieces.push(ones(size)) for size in sizes]
    assert np.concatenate([ones(0), *cut]).tobytes() == whole.push(ones(sum(sizes))).tobytes()


def test_it_ends_silent_and_comes_back_whole() -> None:
    fader = Fader(480)
    assert fader.open
    fader.down()
    assert fader.push(ones(480))[-1] == 0.0
    assert fader.silent
    assert not fader.push(ones(10)).any()
    fader.up()
    assert fader.push(ones(480))[-1] == 1.0
    assert fader.open


def test_a_fade_of_no_length_is_refused() -> None:
    with pytest.raises(ValueError, match="length: expected at least 1 sample, got 0"):
        Fader(0)
