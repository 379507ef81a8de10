"""What is played in the terminal: every sample once and in order, and cuts that tell the truth."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import Samples
from server.talk.playback import Cut, Playback

RATE = 24_000
pieces = st.lists(st.tuples(st.sampled_from("ABC"), st.integers(1, 700)), max_size=20)
takes = st.lists(st.integers(0, 900), max_size=20)


def numbered(first: int, count: int) -> Samples:
    """Samples that tell which one they are; none is zero, which is silence."""
    return np.arange(first + 1, first + count + 1, dtype=np.float32)


def filled(pieces: list[tuple[str, int]]) -> tuple[Playback, int]:
    """A playback that holds ``pieces`` with all samples numbered, and how many there are."""
    playback, pushed = Playback(RATE), 0
    for item, count in pieces:
        playback.push(item, 0, numbered(pushed, count))
        pushed += count
    return playback, pushed


@given(pieces, takes)
def test_every_sample_is_played_once_and_in_order(
    pieces: list[tuple[str, int]], takes: list[int]
) -> None:
    playback, pushed = filled(pieces)
    played = [playback.take(count) for count in [*takes, pushed]]
    assert [len(sound) for sound in played] == [*takes, pushed]
    heard = np.concatenate(played)
    assert np.array_equal(heard[heard > 0], numbered(0, pushed))
    assert playback.waiting == 0


@given(st.integers(1, 5000), st.integers(0, 6000), st.integers(0, 3000))
def test_a_cut_says_what_was_heard_of_the_reply(received: int, taken: int, unheard: int) -> None:
    playback, _ = filled([("A", received)])
    playback.take(taken)
    sounded = max(0, taken - unheard)
    cuts = playback.stop(unheard)
    if sounded >= received:
        assert cuts == []
    else:
        assert cuts == [Cut("A", 0, sounded * 1000 // RATE)]
    assert playback.waiting == 0


@given(pieces, st.integers(0, 9000))
def test_no_reply_is_cut_behind_its_end(pieces: list[tuple[str, int]], taken: int) -> None:
    playback, _ = filled(pieces)
    playback.take(taken)
    for cut in playback.stop(0):
        received = sum(count for item, count in pieces if item == cut.item_id)
        assert 0 <= cut.audio_end_ms * RATE <= received * 1000


def test_what_comes_late_of_a_reply_that_was_cut_is_not_played() -> None:
    playback, _ = filled([("A", 1000)])
    playback.take(480)
    assert playback.stop(0) == [Cut("A", 0, 20)]
    playback.push("A", 0, numbered(0, 480))
    playback.push("B", 0, numbered(7, 3))
    assert playback.take(480)[:4].tolist() == [8, 9, 10, 0]


def test_a_reply_that_waits_behind_another_is_cut_at_its_beginning() -> None:
    playback, _ = filled([("A", 1000), ("B", 1000)])
    playback.take(480)
    assert playback.stop(0) == [Cut("A", 0, 20), Cut("B", 0, 0)]


def test_a_reply_that_was_played_to_its_end_is_not_cut() -> None:
    playback, _ = filled([("A", 480)])
    playback.take(960)
    assert playback.stop(480) == []
