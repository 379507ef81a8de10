"""The simulated engine's pure parts, and that its options are understood or refused."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import (
    Context,
    EngineError,
    Event,
    Message,
    Respond,
    Samples,
    Text,
    Turn,
)
from engine.simulated.detector import Detector
from engine.simulated.options import Options, parse
from engine.simulated.planner import Planner, drafted
from engine.simulated.recording import Heard, Recording
from engine.simulated.speech import laid_over, spoken, words

RATE = 16000


def noise(*parts: tuple[int, float]) -> Samples:
    """Milliseconds of sound at given levels."""
    return np.concatenate([np.full(ms * RATE // 1000, level, np.float32) for ms, level in parts])


SPEECH = noise((300, 0), (400, 0.3), (900, 0), (30, 0.3), (500, 0), (200, 0.3), (1000, 0))


@given(st.lists(st.integers(1, 4000), max_size=40))
def test_turns_do_not_depend_on_how_sound_is_cut(sizes: list[int]) -> None:
    def found(cuts: list[int]) -> list[Event]:
        ids = iter("abcdef")
        detector = Detector(RATE, 0.02, lambda: next(ids))
        edges = [0, *(cut for cut in accumulate(cuts) if cut < len(SPEECH)), len(SPEECH)]
        return [
            event
            for start, end in pairwise(edges)
            for event in detector.push(start, SPEECH[start:end])
        ]

    assert found(sizes) == found([])
    assert [type(event).__name__ for event in found([])] == [
        "Onset",
        "SpeechStarted",
        "SpeechStopped",
        "TurnEnded",
        "Onset",
        "OnsetDropped",
        "Onset",
        "SpeechStarted",
        "SpeechStopped",
        "TurnEnded",
    ]


def test_a_recording_keeps_a_minute_and_cuts_by_position() -> None:
    recording = Recording(100)
    for at in range(0, 10_000, 50):
        recording.append(Heard(at, np.arange(at, at + 50, dtype=np.float32)))
    assert recording.cut(9_930, 9_960).tolist() == list(range(9_930, 9_960))
    assert len(recording.cut(0, 10_000)) <= 6_050


@given(st.text(max_size=200))
def test_joined_words_are_the_text(text: str) -> None:
    assert "".join(words(text)) == " ".join(text.split())
    sound = np.ones(1000, np.float32)
    assert "".join(word.text for word in laid_over(text, sound)) == " ".join(text.split())
    assert sum(len(word.pcm) for word in laid_over(text, sound)) == 1000


def test_a_word_always_sounds_the_same_and_higher_in_the_other_voice() -> None:
    (low,), (again,) = spoken("hello", RATE), spoken("hello", RATE)
    (high,) = spoken("hello", RATE, 1.5)
    assert low.pcm.tobytes() == again.pcm.tobytes()
    assert len(low.pcm) == len(high.pcm)
    assert not np.array_equal(low.pcm, high.pcm)


def test_a_long_word_does_not_grow_without_bound() -> None:
    (word,) = spoken("a" * 100_000, RATE)
    assert len(word.pcm) == RATE


def test_a_typed_message_is_echoed_in_words() -> None:
    context = Context(revision=3, messages=(Message(role="user", parts=(Text(text="Hi you."),)),))
    plan = Planner(Options()).plan(Respond(reply="r", revision=3), context, {}, "low", 0.0)
    assert "".join(word.text for word in plan.words) == "Hi you."
    assert (plan.usage.input_tokens, plan.usage.output_tokens) == (2, 2)


@pytest.mark.parametrize(
    ("revision", "voice", "message"),
    [
        (2, "low", "revision: expected 3, got 2"),
        (3, "nobody", "voice: expected one of low, high, got nobody"),
    ],
)
def test_a_reply_that_cannot_be_fails_by_name(revision: int, voice: str, message: str) -> None:
    order = Respond(reply="r", revision=revision)
    plan = Planner(Options()).plan(order, Context(revision=3), {}, voice, 0.0)
    assert (plan.reason, plan.message) == ("failed", message)


def test_a_draft_fits_only_its_turn_and_revision() -> None:
    said = Message(role="user", parts=(Turn(turn="t"),))
    draft = drafted(Context(revision=4, messages=(said,)), 0.0)
    assert draft is not None
    assert draft.fits(Respond(reply="r", revision=4, turn="t"))
    assert not draft.fits(Respond(reply="r", revision=5, turn="t"))
    assert not draft.fits(Respond(reply="r", revision=4, turn="u"))
    assert not draft.fits(Respond(reply="r", revision=4, turn="t", messages=()))
    assert drafted(Context(revision=4), 0.0) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tikc": 1}, "unknown field `tikc`"),
        ({"faults": [{"kind": "sulk"}]}, r"Invalid enum value 'sulk' - at `\$.faults"),
        ({"tick": 1280}, 'tick: expected none without "replies": "by_itself"'),
        (
            {"tick": 1280, "replies": "by_itself", "mode": "scripted"},
            'tick: expected none without "replies": "by_itself" and "mode": "echo"',
        ),
        ({"tick": 1, "replies": "by_itself"}, "tick: expected input samples that make a whole"),
        ({"capacity": "many"}, r"Expected `int`, got `str` - at `\$.capacity`"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        parse(options)
