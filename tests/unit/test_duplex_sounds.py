"""Everyone's sound into a batch and out of it: each has its own, in the numbers that it had."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.audio.pcm import floats
from engine.duplex.sounds import Sounds, rms

SLOTS, FRAME = 6, 8
SHARES = st.lists(
    st.tuples(
        st.lists(st.integers(-32768, 32767), min_size=FRAME, max_size=FRAME),
        st.integers(0, FRAME),
    ),
    max_size=SLOTS,
)


def batch() -> Any:
    return SimpleNamespace(
        pcm=np.full((SLOTS, FRAME), 9.0, np.float32), heard=np.zeros((SLOTS, FRAME), np.float32)
    )


@given(st.lists(SHARES, max_size=3), st.permutations(range(SLOTS)))
def test_each_hears_its_own_pieces_and_nobody_elses(
    ticks: list[list[tuple[list[int], int]]], order: list[int]
) -> None:
    of = batch()
    sounds = Sounds(of)
    for shares in ticks:
        before = of.pcm.copy()
        slots = order[: len(shares)]
        frames = [np.array(samples, np.int16) for samples, _ in shares]
        pieces = [
            piece
            for frame, (_, cut) in zip(frames, shares, strict=True)
            for piece in (frame[:cut], frame[cut:])
        ]
        sounds.hear(slots, pieces)
        for slot, frame in zip(slots, frames, strict=True):
            assert (of.pcm[slot] == floats(frame)).all()
        rest = order[len(shares) :]
        assert (of.pcm[rest] == before[rest]).all()


def test_each_says_its_own_and_what_is_no_number_stays_as_it_is() -> None:
    of = batch()
    sounds = Sounds(of)
    of.heard[:] = np.arange(SLOTS)[:, None] / 32768
    of.heard[2, 3] = np.nan
    said, levels = sounds.say([4, 2, 0])
    assert [frame.dtype for frame in said] == [np.int16, np.float32, np.int16]
    assert (said[0] == 4).all() and (said[2] == 0).all()
    assert np.isnan(said[1][3]) and np.isnan(levels[1])
    assert np.allclose([levels[0], levels[2]], rms(of.heard[[4, 0]]))
    of.heard[:] = 0.5
    sounds.say([4, 2, 0])
    assert (said[0] == 4).all(), "what was given away is not written again"


def test_with_nobody_there_nothing_is_heard_or_said() -> None:
    of = batch()
    sounds = Sounds(of)
    sounds.hear([], [])
    assert sounds.say([]) == ([], [])
    assert (of.pcm == 9.0).all()
