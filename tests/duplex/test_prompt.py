"""A prompt laid out at once is what the reference arrives at call by call."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.duplex.prompt import PAD, SILENCE, SINE, Ints, prompt, role

DELAYS = (0, 0, *[1] * 7, 0, *[1] * 7)
START = (32000, *[2048] * 16)
SPAN = 4


def call_by_call(frames: list[tuple[int, ...]]) -> tuple[list[list[int]], Ints, int]:
    """NVIDIA's ``prepare_step_input``: what is read in turn, and the cache in the end."""
    cache = np.full((17, SPAN), -2)
    read = []
    for offset, frame in enumerate(frames):
        for row, (delay, token) in enumerate(zip(DELAYS, frame, strict=True)):
            cache[row, (offset + delay) % SPAN] = token
            if offset <= delay:
                cache[row, offset % SPAN] = START[row]
        if offset == 0:
            cache[:, 0] = START
        else:
            read.append(cache[:, (offset - 1) % SPAN].tolist())
    return read, cache, len(frames) - 1


@given(
    voice=st.lists(st.lists(st.integers(0, 2047), min_size=8, max_size=8), max_size=9),
    words=st.lists(st.integers(0, 31999), max_size=9),
)
def test_it_reads_and_leaves_what_the_reference_does(
    voice: list[list[int]], words: list[int]
) -> None:
    laid = prompt(words, delays=DELAYS, start=START, span=SPAN, voice_codes=voice)
    frames = [(PAD, *codes, *SINE) for codes in voice]
    for tokens in ([PAD] * 6, words, [PAD] * 6):
        frames += [(token, *SILENCE, *SINE) for token in tokens]
    read, cache, position = call_by_call(frames)
    assert laid.position == position
    assert laid.inputs.tolist() == read
    here, after = position % SPAN, (position + 1) % SPAN
    late = np.asarray(DELAYS) == 1
    assert (laid.columns[:, here] == cache[:, here]).all()
    assert (laid.columns[late, after] == cache[late, after]).all()
    assert (laid.given[:, after] == late).all()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("You are wise. ", "<system> You are wise. <system>"),
        ("<system> You are wise. <system>", "<system> You are wise. <system>"),
        (" \n", ""),
    ],
)
def test_a_role_stands_between_its_tags(text: str, told: str) -> None:
    assert role(text) == told
