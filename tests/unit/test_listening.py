"""The caller's turns: each is one item with one transcript, and silence is none."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest

from engine import contract
from server import happenings as happen
from server.conversation import Conversation
from server.happenings import Happening
from server.listening import WAITING, Listening
from server.requests import RequestError

RATE = 16_000
T = TypeVar("T")


class Ear:
    """Listening that tells a list."""

    def __init__(self) -> None:
        self.told: list[Happening] = []
        self.conversation = Conversation()
        self.listening = Listening(self.conversation, self.told.append, RATE, kept=2)

    def hear(self, seconds: float) -> None:
        self.listening.heard.push(np.full(round(seconds * RATE), 0.5, np.float32))

    def tells(self, kind: type[T]) -> list[T]:
        return [each for each in self.told if isinstance(each, kind)]


def refusal(listening: Listening) -> RequestError:
    with pytest.raises(RequestError) as caught:
        listening.commit(detecting=True)
    return caught.value


def test_what_the_detector_closed_is_not_committed_again_before_it_stands_nor_after() -> None:
    ear = Ear()
    ear.hear(1)
    ear.listening.speech(contract.SpeechStarted("t", 0))
    ear.listening.pause(contract.SpeechStopped("t", RATE))
    ear.hear(1)
    assert refusal(ear.listening).code == "input_audio_buffer_commit_empty"
    assert ear.listening.end(contract.TurnEnded("t", 0, RATE))
    assert refusal(ear.listening).code == "input_audio_buffer_commit_empty"


def test_amid_speech_a_commit_ends_the_turn_that_was_announced() -> None:
    ear = Ear()
    ear.hear(1)
    ear.listening.speech(contract.SpeechStarted("t", 0))
    assert ear.listening.commit(detecting=True) == "t"
    assert not ear.listening.end(contract.TurnEnded("t", 0, RATE))
    (started,) = ear.tells(happen.SpeechStarted)
    (committed,) = ear.tells(happen.InputCommitted)
    assert committed.item == started.item


def test_a_turn_cleared_while_it_was_spoken_is_told_once() -> None:
    ear = Ear()
    ear.hear(1)
    ear.listening.speech(contract.SpeechStarted("t", 0))
    ear.listening.clear()
    ear.listening.pause(contract.SpeechStopped("t", RATE))
    ear.listening.drop(contract.TurnDropped("t"))
    assert [type(each) for each in ear.told] == [happen.SpeechStarted, happen.InputCleared]


def test_a_turn_that_ended_before_it_was_cleared_keeps_its_item() -> None:
    ear = Ear()
    ear.hear(1)
    ear.listening.speech(contract.SpeechStarted("t", 0))
    ear.listening.pause(contract.SpeechStopped("t", RATE))
    ear.listening.clear()
    ear.listening.end(contract.TurnEnded("t", 0, RATE))
    ear.listening.transcribed(contract.TranscriptCompleted("t", "Hello.", 1.0))
    (started,) = ear.tells(happen.SpeechStarted)
    (completed,) = ear.tells(happen.TranscriptCompleted)
    assert (completed.item, completed.text) == (started.item, "Hello.")


def test_a_turn_that_says_nothing_has_no_empty_transcript() -> None:
    ear = Ear()
    ear.hear(1)
    turn = ear.listening.commit(detecting=False)
    ear.listening.end(contract.TurnEnded(turn, 0, RATE))
    ear.listening.transcribed(contract.TranscriptCompleted(turn, "", 1.0))
    ear.listening.transcribed(contract.TranscriptCompleted(turn, "", 1.0))
    assert not ear.tells(happen.TranscriptCompleted)
    assert len(ear.tells(happen.TranscriptFailed)) == 1


def test_a_transcript_that_comes_late_belongs_to_its_own_item() -> None:
    ear = Ear()
    for name in ("a", "b"):
        ear.hear(1)
        ear.listening.speech(contract.SpeechStarted(name, 0))
        ear.listening.end(contract.TurnEnded(name, 0, RATE))
    for name in ("b", "a"):
        ear.listening.transcribed(contract.TranscriptCompleted(name, f"I am {name}.", 1.0))
    items = [committed.item for committed in ear.tells(happen.InputCommitted)]
    told = [(done.item, done.text) for done in ear.tells(happen.TranscriptCompleted)]
    assert told == [(items[1], "I am b."), (items[0], "I am a.")]


def test_the_sound_of_an_item_is_there_while_it_is_kept() -> None:
    ear = Ear()
    ear.hear(1)
    ear.listening.end(contract.TurnEnded("t", 100, RATE))
    (committed,) = ear.tells(happen.InputCommitted)
    sound = ear.listening.sound_of(committed.item)
    assert sound is not None
    assert len(sound) == RATE - 100
    assert ear.listening.sound_of("item_of_somebody_else") is None
    ear.hear(1.5)
    assert ear.listening.sound_of(committed.item) is None


def test_turns_whose_transcripts_never_come_are_forgotten() -> None:
    ear = Ear()
    for number in range(2 * WAITING):
        ear.listening.end(contract.TurnEnded(f"t{number}", 0, RATE))
    assert ear.listening.length_ms("t0") == 0
    assert ear.listening.length_ms(f"t{2 * WAITING - 1}") == 1000
