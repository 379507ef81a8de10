"""The client in the terminal: what it plays, sends and shows for what a server tells it."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audio.pcm import to_pcm16
from server.talk import events
from server.talk.captions import Captions, printable
from server.talk.dialogue import RATE, Dialogue, Refused, Step, append
from server.talk.ending import PATIENCE, SETTLE, Ending

SPOKEN = "conversation.item.input_audio_transcription"
SAID = "response.output_audio_transcript"


def see(dialogue: Dialogue, kind: str, **fields: Any) -> Step:
    return dialogue.see(events.parse(json.dumps({"type": kind, "event_id": "e", **fields})))


def begun(unheard: int = 0) -> Dialogue:
    dialogue = Dialogue(lambda: unheard)
    see(dialogue, "session.created", session={})
    return dialogue


def audio(seconds: float) -> str:
    sound = np.full(round(seconds * RATE), 0.5, np.float32)
    return base64.b64encode(to_pcm16(sound)).decode()


def reply(dialogue: Dialogue, seconds: float) -> None:
    """A reply that was sent whole."""
    see(dialogue, "response.created", response={"id": "r", "status": "in_progress"})
    fields = {"response_id": "r", "item_id": "i", "output_index": 0, "content_index": 0}
    see(dialogue, "response.output_audio.delta", delta=audio(seconds), **fields)
    see(dialogue, "response.done", response={"id": "r", "status": "completed"})


def test_a_session_is_asked_to_show_what_the_caller_says() -> None:
    step = see(Dialogue(lambda: 0), "session.created", session={"type": "realtime"})
    (update,) = step.send
    assert update["type"] == "session.update" and update["session"]["type"] == "realtime"
    assert update["session"]["audio"]["input"]["transcription"]


def test_speech_stops_the_reply_and_says_how_much_of_it_was_heard() -> None:
    dialogue = begun(unheard=2_400)
    reply(dialogue, 3.0)
    dialogue.playback.take(RATE)
    step = see(dialogue, "input_audio_buffer.speech_started", item_id="u", audio_start_ms=0)
    truncate = {"type": "conversation.item.truncate", "item_id": "i", "content_index": 0}
    assert step.send == [truncate | {"audio_end_ms": 900}]
    assert [str(line) for line in step.lines] == ["(stopped after 0.9 s)"]
    assert not dialogue.playback.take(RATE).any()


def test_speech_after_a_reply_was_heard_cuts_nothing() -> None:
    dialogue = begun()
    reply(dialogue, 0.5)
    dialogue.playback.take(RATE)
    assert see(dialogue, "input_audio_buffer.speech_started", item_id="u").send == []


def test_it_is_busy_from_the_first_word_until_the_answer_was_played() -> None:
    dialogue = begun()
    states = [dialogue.busy]
    for kind in ("speech_started", "speech_stopped", "committed"):
        see(dialogue, f"input_audio_buffer.{kind}", item_id="u")
        states.append(dialogue.busy)
    reply(dialogue, 0.5)
    states.append(dialogue.busy)
    dialogue.playback.take(RATE)
    assert [*states, dialogue.busy] == [False, True, True, True, True, False]


def test_a_noise_that_was_no_turn_is_not_waited_for() -> None:
    dialogue = begun()
    see(dialogue, "input_audio_buffer.speech_started", item_id="u")
    see(dialogue, "input_audio_buffer.cleared")
    assert not dialogue.busy and not dialogue.answered


@pytest.mark.parametrize(
    ("status", "answered", "failed"),
    [("completed", True, False), ("cancelled", False, False), ("failed", False, True)],
)
def test_only_a_reply_that_was_made_answers(status: str, answered: bool, failed: bool) -> None:
    dialogue = begun()
    see(dialogue, "response.created", response={"id": "r", "status": "in_progress"})
    see(dialogue, "response.done", response={"id": "r", "status": status})
    assert (dialogue.answered, dialogue.failed, dialogue.busy) == (answered, failed, False)


def test_an_error_in_place_of_a_session_is_a_refusal() -> None:
    with pytest.raises(Refused, match="all 4 places are taken"):
        see(Dialogue(lambda: 0), "error", error={"message": "all 4 places are taken"})


def test_an_error_in_a_session_is_shown() -> None:
    step = see(begun(), "error", error={"type": "server_error", "message": "it broke"})
    assert [str(line) for line in step.lines] == ["(the server says: it broke)"]


def test_events_and_fields_that_are_new_are_passed_over() -> None:
    assert see(begun(), "response.hummed", melody=[1], item_id="i") == Step()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"type": 5}', '{"delta": "x"}', '"type"'])
def test_what_is_no_event_is_said_so_without_a_word_of_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the server sent what is no Realtime event$"):
        events.parse(text)


@pytest.mark.parametrize("delta", ["!", "AA==", "AAAA"])
def test_sound_that_cannot_be_read_is_said_so(delta: str) -> None:
    with pytest.raises(ValueError, match=r"^the server sent sound that cannot be read$"):
        see(begun(), "response.output_audio.delta", item_id="i", content_index=0, delta=delta)


def test_what_is_sent_is_base64_of_the_samples() -> None:
    event = append(b"\x01\x02")
    assert event == {"type": "input_audio_buffer.append", "audio": "AQI="}


def test_captions_are_lines_when_complete_and_run_before() -> None:
    captions, running = Captions(), []
    told = [
        events.Event(f"{SPOKEN}.delta", delta="What is "),
        events.Event(f"{SPOKEN}.completed", transcript="What is it?"),
        events.Event(f"{SAID}.delta", delta="It "),
        events.Event(f"{SAID}.delta", delta="is noon."),
        events.Event(f"{SAID}.done", transcript="It is noon."),
        events.Event(f"{SPOKEN}.completed", transcript=" "),
    ]
    lines = []
    for event in told:
        lines += [str(line) for line in captions.see(event)]
        running.append(captions.running)
    assert lines == ["you: What is it?", "parley: It is noon."]
    assert running == ["you: What is", "", "parley: It", "parley: It is noon.", "", ""]


@given(st.text())
def test_a_caption_cannot_steer_the_terminal(text: str) -> None:
    shown = printable(text)
    assert shown == "" or shown.isprintable()
    assert printable(f"\x1b[2J{text}\u202e").startswith("[2J")


def test_a_call_is_over_when_it_was_quiet_after_the_answer() -> None:
    ending = Ending()
    assert ending.poll(0, moved=True, busy=True, answered=False) == "on"
    assert ending.poll(10, moved=True, busy=False, answered=True) == "on"
    assert ending.poll(9 + SETTLE, moved=False, busy=False, answered=True) == "on"
    assert ending.poll(10 + SETTLE, moved=False, busy=False, answered=True) == "over"


@given(st.booleans())
def test_a_call_without_a_sign_of_an_answer_is_given_up(busy: bool) -> None:
    ending = Ending()
    assert ending.poll(5, moved=False, busy=busy, answered=busy) == "on"
    assert ending.poll(4 + PATIENCE, moved=False, busy=busy, answered=busy) == "on"
    verdict = ending.poll(5 + PATIENCE, moved=False, busy=busy, answered=busy)
    assert verdict == "unanswered"
