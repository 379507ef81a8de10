"""Joined deltas are the transcript, whatever the recogniser changes its mind to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.cascade.transcript import HELD, Transcript

reading = st.lists(st.sampled_from(["a", "b,", "c.", "B", "A", "d"]), max_size=8)
readings = st.lists(reading, max_size=6)


@given(readings, reading)
def test_joined_deltas_are_the_transcript(partials: list[list[str]], final: list[str]) -> None:
    transcript = Transcript()
    deltas = [transcript.partial(" ".join(words)) for words in partials]
    whole = transcript.complete(" ".join(final))
    deltas.append(transcript.finish(" ".join(final)))
    assert "".join(deltas) == whole == transcript.text


@given(st.lists(st.sampled_from("abcde"), max_size=8))
def test_a_final_reading_that_agrees_is_taken_as_it_is(words: list[str]) -> None:
    transcript = Transcript()
    for end in range(len(words) + 1):
        transcript.partial(" ".join(words[:end]))
    assert transcript.complete(" ".join(words)) == " ".join(words)


def test_words_stand_when_two_readings_agree_but_the_last_of_them_does_not() -> None:
    transcript = Transcript()
    assert transcript.partial("I want to") == ""
    assert transcript.partial("I want two of") == "I"
    assert transcript.partial("I want two of them") == " want two"
    assert transcript.finish("I want two of them.") == " of them."


def test_a_final_reading_that_disagrees_keeps_what_was_given_and_repeats_nothing() -> None:
    transcript = Transcript()
    for _ in range(2):
        transcript.partial("I want to of them")
    assert transcript.complete("I want two of them, please.") == "I want to of them, please."
    assert transcript.complete("Well, I want to of them.") == "I want to of them."


def test_the_longer_the_delay_the_more_words_wait() -> None:
    said = "one two three four five six seven eight nine ten"
    given = {}
    for delay, held in HELD.items():
        transcript = Transcript(held)
        assert transcript.partial(said) == ""
        given[delay] = len(transcript.partial(said).split())
    assert given == {"minimal": 10, "low": 9, "medium": 8, "high": 6, "xhigh": 2}
