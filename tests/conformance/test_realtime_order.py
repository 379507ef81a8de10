"""The order of events that clients rely on, and that nothing a client sends can break it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server import happenings as happen
from server.protocol.event import encode
from server.replies import Outcome, Reply
from tests.conformance.fake_session import Bench


def send(bench: Bench, **event: Any) -> list[dict[str, Any]]:
    return bench.send(json.dumps(event))


def reply_of(bench: Bench) -> Reply:
    send(bench, type="response.create")
    reply = bench.session.replies.active()
    assert reply is not None
    return reply


def types_after(bench: Bench, kind: str) -> list[str]:
    """The events behind the last of ``kind``, it included, without prefixes."""
    types = bench.client.types
    start = len(types) - 1 - types[::-1].index(kind)
    return [name.removeprefix("response.") for name in types[start:]]


def test_a_session_begins_with_its_whole_object() -> None:
    created = Bench().client.events[0]
    session = created["session"]
    assert created["type"] == "session.created"
    assert session["model"] == "gpt-realtime"
    assert session["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    assert session["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 24000}


def test_behind_its_session_a_client_is_told_of_its_conversation() -> None:
    bench = Bench()
    _, created = bench.adapter.opening()
    told = bench.client.see(encode(created))
    assert told["type"] == "conversation.created"
    reply = reply_of(bench)
    bench.session.complete(reply)
    response = bench.client.events[-2]["response"]
    assert told["conversation"] == {
        "id": response["conversation_id"],
        "object": "realtime.conversation",
    }


def test_the_retired_event_of_an_item_is_never_sent() -> None:
    bench = Bench()
    item = {"type": "message", "role": "user", "content": []}
    send(bench, type="conversation.item.create", item=item)
    assert bench.client.types[1:] == ["conversation.item.added", "conversation.item.done"]


def test_a_key_of_the_callers_telephone() -> None:
    bench = Bench()
    bench.session.tell(happen.KeyPressed(key="#", at=1_790_000_000))
    told = bench.client.events[-1]
    assert told["type"] == "input_audio_buffer.dtmf_event_received"
    assert (told["event"], told["received_at"]) == ("#", 1_790_000_000)


def test_a_detected_turn() -> None:
    bench = Bench()
    item = bench.session.speak()
    bench.session.transcribe(item, "guten ", "Tag")
    assert bench.client.types[1:] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
    ]
    added = bench.client.events[4]["item"]
    assert added["content"] == [{"type": "input_audio", "transcript": None}]
    assert {event.get("item_id", item) for event in bench.client.events[1:]} == {item}
    assert bench.client.events[-1]["usage"] == {"type": "duration", "seconds": 1.25}


def test_a_turn_in_which_nothing_was_said_is_cleared() -> None:
    bench = Bench()
    bench.session.speak(detected=False)
    assert bench.client.types[-1] == "input_audio_buffer.cleared"


def test_an_audio_response_over_a_socket() -> None:
    bench = Bench()
    reply = reply_of(bench)
    bench.session.say(reply, "Guten ")
    bench.session.say(reply, "Tag.")
    bench.session.complete(reply)
    bench.client.finish()
    assert types_after(bench, "response.created") == [
        "created",
        "output_item.added",
        "conversation.item.added",
        "content_part.added",
        "output_audio.delta",
        "output_audio_transcript.delta",
        "output_audio.delta",
        "output_audio_transcript.delta",
        "output_audio.done",
        "output_audio_transcript.done",
        "content_part.done",
        "conversation.item.done",
        "output_item.done",
        "done",
        "rate_limits.updated",
    ]
    done = bench.client.events[-2]["response"]
    assert done["output"][0]["content"] == [{"type": "output_audio", "transcript": "Guten Tag."}]
    assert done["usage"]["input_token_details"]["audio_tokens"] == 12
    assert done["usage"]["output_token_details"] == {"text_tokens": 7, "audio_tokens": 4}
    assert [len(sound) for sound in bench.client.sound.values()] == [2 * 4800]


def test_an_audio_response_on_a_call_has_its_sound_on_the_track() -> None:
    bench = Bench(paced=True)
    reply = reply_of(bench)
    bench.session.say(reply, "Hallo.")
    bench.session.tell(happen.PlayoutStarted(reply=reply.id))
    bench.session.complete(reply)
    bench.session.tell(happen.PlayoutStopped(reply=reply.id))
    bench.client.finish()
    types = types_after(bench, "response.created")
    assert "output_audio.delta" not in types
    assert types[-3:] == ["done", "rate_limits.updated", "output_audio_buffer.stopped"]
    assert types.index("content_part.added") < types.index("output_audio_buffer.started")


def test_a_text_response() -> None:
    bench = Bench()
    send(bench, type="response.create", response={"output_modalities": ["text"]})
    reply = bench.session.replies.all()[0]
    bench.session.say(reply, "Hal")
    bench.session.say(reply, "lo.")
    bench.session.complete(reply)
    bench.client.finish()
    assert types_after(bench, "response.created") == [
        "created",
        "output_item.added",
        "conversation.item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "conversation.item.done",
        "output_item.done",
        "done",
        "rate_limits.updated",
    ]
    assert bench.client.events[-2]["response"]["usage"]["output_token_details"]["audio_tokens"] == 0


def test_a_function_call_after_a_spoken_message() -> None:
    bench = Bench()
    reply = reply_of(bench)
    bench.session.say(reply, "Moment.")
    bench.session.call(reply)
    bench.session.complete(reply)
    bench.client.finish()
    types = types_after(bench, "response.created")
    assert types[types.index("output_item.done") + 1 :] == [
        "output_item.added",
        "conversation.item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "conversation.item.done",
        "output_item.done",
        "done",
        "rate_limits.updated",
    ]
    added = next(e for e in bench.client.events if e.get("output_index") == 1)
    assert (added["item"]["arguments"], added["item"]["name"]) == ("", "weather")
    call = bench.client.events[-2]["response"]["output"][1]
    send(
        bench,
        type="conversation.item.create",
        item={"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"},
    )
    assert bench.client.types[-2:] == ["conversation.item.added", "conversation.item.done"]


def test_each_message_of_a_response_says_its_own_words() -> None:
    bench = Bench()
    reply = reply_of(bench)
    bench.session.say(reply, "Moment.")
    bench.session.call(reply)
    bench.session.say(reply, "Es regnet.")
    bench.session.complete(reply)
    bench.client.finish()
    said = [e["transcript"] for e in bench.client.events if e["type"].endswith("transcript.done")]
    assert said == ["Moment.", "Es regnet."]


def test_speech_cancels_a_response_and_closes_all_its_parts() -> None:
    bench = Bench()
    reply = reply_of(bench)
    bench.session.say(reply, "Es war einmal ")
    bench.session.tell(happen.SpeechStarted(item="item_next", at_ms=4000))
    bench.session.replies.end(reply, Outcome("cancelled", "turn_detected"))
    bench.client.finish()
    assert types_after(bench, "input_audio_buffer.speech_started") == [
        "input_audio_buffer.speech_started",
        "output_audio.done",
        "output_audio_transcript.done",
        "content_part.done",
        "conversation.item.done",
        "output_item.done",
        "done",
        "rate_limits.updated",
    ]
    response = bench.client.events[-2]["response"]
    assert response["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert response["output"][0]["status"] == "incomplete"


def test_a_failed_response_says_why() -> None:
    bench = Bench()
    reply = reply_of(bench)
    bench.session.replies.end(reply, Outcome("failed", None, "engine_lost", "the engine stopped"))
    assert bench.client.events[-2]["response"]["status_details"] == {
        "type": "failed",
        "error": {"type": "server_error", "code": "engine_lost", "message": "the engine stopped"},
    }


def test_an_out_of_band_response_leaves_the_conversation_alone() -> None:
    bench = Bench()
    running = reply_of(bench)
    send(
        bench,
        type="response.create",
        response={"conversation": "none", "metadata": {"topic": "sum"}, "input": []},
    )
    aside = bench.session.replies.all()[1]
    bench.session.say(aside, "kurz")
    bench.session.complete(aside)
    response = bench.client.events[-2]["response"]
    assert (response["conversation_id"], response["metadata"]) == (None, {"topic": "sum"})
    assert not [name for name in bench.client.types if name.startswith("conversation.item")]
    bench.session.complete(running)
    bench.client.finish()


def test_a_silent_caller_is_reported_before_the_turn_that_stands_for_the_silence() -> None:
    bench = Bench()
    bench.session.tell(happen.IdleTimedOut(item="item_idle", start_ms=100, end_ms=6100))
    bench.session.say_turn("item_idle")
    assert bench.client.types[1:3] == [
        "input_audio_buffer.timeout_triggered",
        "input_audio_buffer.committed",
    ]


@pytest.mark.parametrize("fatal", [True, False])
def test_a_fault_of_ours_is_a_server_error(fatal: bool) -> None:
    bench = Bench()
    bench.session.tell(happen.Faulted(code="engine_lost", message="it is gone", fatal=fatal))
    assert bench.client.events[-1]["error"]["type"] == "server_error"
    assert bench.client.events[-1]["error"]["code"] == "engine_lost"


def test_only_the_end_of_a_sessions_life_is_an_error_of_its_own() -> None:
    bench = Bench()
    bench.session.tell(happen.Ended(reason="hangup"))
    bench.session.tell(happen.ActivityChanged(activity="thinking"))
    assert bench.client.types == ["session.created"]
    bench.session.tell(happen.Ended(reason="session_expired"))
    assert bench.client.events[-1]["error"]["code"] == "session_expired"


words = st.text(max_size=8)
ids = st.sampled_from(["item_a", "item_b", "root", "item_x"])
sessions = st.fixed_dictionaries(
    {"type": st.sampled_from(["realtime", "realtime", "transcription"])},
    optional={
        "instructions": words | st.none(),
        "output_modalities": st.sampled_from([["audio"], ["text"], [], ["audio", "text"], None]),
        "audio": st.sampled_from(
            [
                {"input": {"turn_detection": None}},
                {"input": {"turn_detection": {"threshold": 0.25}}},
                {"input": {"turn_detection": {"type": "semantic_vad"}}},
                {"input": {"transcription": None, "format": {"type": "audio/pcmu"}}},
                {"input": {"transcription": {"model": "whisper-1"}}},
                {"output": {"voice": "alloy", "format": {"type": "audio/pcma"}}},
                {"output": {"voice": "bruno"}},
                {"output": 7},
            ]
        ),
        "max_output_tokens": st.sampled_from(["inf", 100.0, 0, None]),
        "tool_choice": st.sampled_from(["required", {"type": "function", "name": "weather"}]),
    },
)
contents = st.lists(
    st.sampled_from(
        [
            {"type": "input_text", "text": "hi"},
            {"type": "input_audio", "transcript": "ho"},
            {"type": "output_text", "text": "hu"},
            {"type": "input_image"},
        ]
    ),
    max_size=2,
)
messages = st.fixed_dictionaries(
    {
        "type": st.just("message"),
        "role": st.sampled_from(["user", "assistant", "system", "tool"]),
        "content": contents,
    },
    optional={"id": ids},
)
client_events = st.one_of(
    st.fixed_dictionaries({"type": st.just("session.update"), "session": sessions}),
    st.fixed_dictionaries(
        {
            "type": st.just("input_audio_buffer.append"),
            "audio": st.sampled_from(["", "AAAA", "AAAAAAAA", "AAA", "?"]),
        }
    ),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                ["input_audio_buffer.commit", "input_audio_buffer.clear", "response.cancel", "x"]
            )
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("conversation.item.create"), "item": messages},
        optional={"previous_item_id": ids | st.none()},
    ),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["conversation.item.retrieve", "conversation.item.delete"]),
            "item_id": ids,
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("response.create")},
        optional={
            "response": st.fixed_dictionaries(
                {},
                optional={
                    "conversation": st.sampled_from(["none", "auto", None]),
                    "output_modalities": st.sampled_from([["audio"], ["text"]]),
                    "metadata": st.dictionaries(words, words, max_size=2),
                    "input": st.lists(messages, max_size=2),
                },
            )
        },
    ),
)
deeds = st.sampled_from(
    ["apply", "refuse", "speak", "noise", "transcribe", "say", "call", "complete", "fail", "cut"]
)
begin = st.just({"type": "response.create"})


def do(bench: Bench, deed: str, spoken: list[str]) -> None:
    """Makes ``deed`` happen if it can."""
    session = bench.session
    reply = next(iter(session.replies.all()), None)
    match deed:
        case "apply" if session.updates:
            session.apply()
        case "refuse" if session.updates:
            session.refuse()
        case "speak":
            spoken.append(session.speak())
        case "noise":
            session.speak(detected=False)
        case "transcribe" if spoken:
            session.transcribe(spoken.pop(0), "ja ", "nein")
        case "say" if reply:
            session.say(reply, "la ", 30)
        case "call" if reply:
            session.call(reply, "{}")
        case "complete" if reply:
            session.complete(reply)
        case "fail" if reply:
            session.replies.end(reply, Outcome("failed", None, "lost", "gone"))
        case "cut" if reply:
            session.replies.end(reply, Outcome("cancelled", "turn_detected"))


@settings(max_examples=200, deadline=None)
@given(st.booleans(), st.lists(client_events | deeds | begin, max_size=25))
def test_whatever_is_sent_and_happens_every_event_is_valid_and_in_order(
    paced: bool, steps: list[dict[str, Any] | str]
) -> None:
    bench = Bench(paced=paced)
    spoken: list[str] = []
    updates = 0
    for number, step in enumerate(steps):
        if isinstance(step, str):
            do(bench, step, spoken)
            continue
        answers = send(bench, **step, event_id=f"mine_{number}")
        refused = [answer["error"]["event_id"] for answer in answers if answer["type"] == "error"]
        assert refused in ([], [f"mine_{number}"])
        updates += step["type"] == "session.update" and not refused
    while bench.session.updates:
        bench.session.apply()
    for reply in bench.session.replies.all():
        bench.session.complete(reply)
    bench.client.finish()
    late = [e for e in bench.client.events if e["type"] == "error"]
    refusals = sum("not now" in event["error"]["message"] for event in late)
    assert bench.client.types.count("session.updated") + refusals == updates


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40) | st.text(max_size=40))
def test_rubbish_is_answered_with_one_error(raw: bytes | str) -> None:
    bench = Bench()
    (answer,) = bench.send(raw)
    assert answer["type"] == "error"


def test_nesting_beyond_reason_is_an_error() -> None:
    bench = Bench()
    for raw in ("[" * 100_000, '{"a":' * 500 + "1" + "}" * 500):
        (answer,) = bench.send(raw)
        assert answer["error"]["code"] == "invalid_event"  # type: ignore[index]
