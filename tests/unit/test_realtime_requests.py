"""What a client's events ask of the session, and how the client is told no."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.audio import pcm
from engine.contract import Abilities, Samples
from server import happenings as happen
from server.conversation import Content, Item
from server.heard import LONGEST
from server.requests import ReplyRequest
from tests.conformance.fake_session import INFO, Bench


def send(bench: Bench, kind: str, **fields: Any) -> list[Any]:
    return list(bench.send(json.dumps({"type": kind, "event_id": "mine", **fields})))


def error(bench: Bench, kind: str, **fields: Any) -> dict[str, Any]:
    (answer,) = send(bench, kind, **fields)
    assert answer["type"] == "error"
    assert answer["error"]["event_id"] == "mine"
    body: dict[str, Any] = answer["error"]
    return body


def update(bench: Bench, **session: Any) -> list[Any]:
    return send(bench, "session.update", session={"type": "realtime", **session})


def append(bench: Bench, sound: bytes) -> list[Any]:
    return send(bench, "input_audio_buffer.append", audio=base64.b64encode(sound).decode())


def heard(bench: Bench) -> Samples:
    return np.concatenate([np.zeros(0, np.float32), *bench.session.heard])


# Settings


def test_each_accepted_update_is_answered_once_it_holds() -> None:
    bench = Bench()
    assert update(bench, instructions="one") == []
    assert update(bench, tracing="auto") == []
    assert bench.client.types == ["session.created"]
    bench.session.apply()
    bench.session.apply()
    shown = [event["session"] for event in bench.client.events[1:]]
    assert [(s["instructions"], s["tracing"]) for s in shown] == [("one", None), ("one", "auto")]


def test_a_whole_number_may_be_written_as_a_float_and_no_other() -> None:
    bench = Bench()
    assert update(bench, audio={"input": {"turn_detection": {"silence_duration_ms": 700.0}}}) == []
    bench.session.apply()
    shown = bench.client.events[-1]["session"]["audio"]["input"]["turn_detection"]
    assert shown["silence_duration_ms"] == 700
    (refusal,) = update(bench, audio={"input": {"turn_detection": {"prefix_padding_ms": 0.5}}})
    assert refusal["error"]["param"] == "session.audio.input.turn_detection.prefix_padding_ms"


def test_an_update_that_the_engine_refuses_names_the_wire_field_and_the_event() -> None:
    bench = Bench()
    update(bench, audio={"output": {"voice": "bruno"}})
    bench.session.refuse("voice")
    told = bench.client.events[-1]["error"]
    assert (told["param"], told["event_id"]) == ("session.audio.output.voice", "mine")
    update(bench)
    bench.session.apply()
    assert bench.client.events[-1]["session"]["audio"]["output"]["voice"] == "anna"


def test_the_voice_stands_once_it_was_heard() -> None:
    bench = Bench()
    update(bench, audio={"output": {"voice": "alloy"}})
    bench.session.apply()
    send(bench, "response.create")
    (reply,) = bench.session.replies.all()
    bench.session.say(reply, "Hallo.")
    bench.session.complete(reply)
    refusal = error(
        bench,
        "session.update",
        session={"type": "realtime", "audio": {"output": {"voice": "bruno"}}},
    )
    assert refusal["code"] == "cannot_update_voice"
    assert refusal["param"] == "session.audio.output.voice"
    assert update(bench, audio={"output": {"voice": "alloy"}}) == []
    done = next(e for e in bench.client.events if e["type"] == "response.done")
    assert done["response"]["audio"]["output"]["voice"] == "alloy"


def test_transcripts_are_sent_only_while_the_session_asks_for_them() -> None:
    bench = Bench()
    update(bench, audio={"input": {"transcription": None}})
    bench.session.apply()
    item = bench.session.speak()
    bench.session.transcribe(item, "leise")
    bench.session.tell(happen.TranscriptFailed(item="item_2", message="noise"))
    assert not [name for name in bench.client.types if "transcription" in name]
    (got,) = send(bench, "conversation.item.retrieve", item_id=item)
    assert got["item"]["content"][0]["transcript"] is None
    update(bench, audio={"input": {"transcription": {}}})
    bench.session.apply()
    (got,) = send(bench, "conversation.item.retrieve", item_id=item)
    assert got["item"]["content"][0]["transcript"] == "leise"
    bench.session.tell(happen.TranscriptFailed(item="item_2", message="noise"))
    assert bench.client.types[-1].endswith("transcription.failed")


# Sound


@settings(max_examples=30)
@given(st.lists(st.integers(0, 700), max_size=6), st.sampled_from(["pcm", "pcmu", "pcma"]))
def test_however_sound_is_cut_the_engine_hears_the_same(cuts: list[int], law: str) -> None:
    tone = (np.sin(np.arange(2400) / 7) / 2).astype(np.float32)
    encode = {"pcm": pcm.to_pcm16, "pcmu": pcm.to_pcmu, "pcma": pcm.to_pcma}[law]
    whole, width = encode(tone), 2 if law == "pcm" else 1
    results = []
    for places in ([], sorted(cuts)):
        bench = Bench()
        update(bench, audio={"input": {"format": {"type": f"audio/{law}"}}})
        edges = [0, *(width * place for place in places), len(whole)]
        for start, end in itertools.pairwise(edges):
            assert append(bench, whole[start:end]) == []
        results.append(heard(bench))
    assert len(results[0]) == {"pcm": 1600, "pcmu": 4800, "pcma": 4800}[law]
    assert np.array_equal(results[0], results[1])


def test_half_a_sample_and_bad_base64_are_errors_and_nothing_is_heard() -> None:
    bench = Bench()
    for audio in ("AAAA", "A", "AA==A", "äää"):
        assert error(bench, "input_audio_buffer.append", audio=audio)["param"] == "audio"
    assert not len(heard(bench))


def test_sound_beyond_the_engines_room_waits_in_order() -> None:
    bench = Bench()
    bench.session.room = 1000
    ramp = np.linspace(0, 0.1, 3000, dtype=np.float32)
    append(bench, pcm.to_pcm16(ramp))
    assert len(heard(bench)) == 1000
    assert not bench.adapter.input.pump()
    bench.session.room = 10_000
    assert bench.adapter.input.pump()
    other = Bench()
    append(other, pcm.to_pcm16(ramp))
    assert np.array_equal(heard(bench), heard(other))


def test_a_call_takes_no_sound_by_events_and_a_socket_has_no_output_buffer() -> None:
    call = Bench(paced=True)
    assert error(call, "input_audio_buffer.append", audio="")["param"] == "type"
    assert send(call, "output_audio_buffer.clear") == []
    assert call.client.types[-1] == "output_audio_buffer.cleared"
    assert error(Bench(), "output_audio_buffer.clear")["param"] == "type"


def test_a_reply_sounds_in_the_sessions_format() -> None:
    bench = Bench()
    update(bench, audio={"output": {"format": {"type": "audio/pcmu"}}})
    bench.session.apply()
    send(bench, "response.create")
    (reply,) = bench.session.replies.all()
    for _ in range(10):
        bench.session.say(reply, "la ", 33)
    bench.session.complete(reply)
    (sound,) = bench.client.sound.values()
    samples = pcm.from_pcmu(sound)
    tail = 13
    assert len(samples) == 2640 + tail
    assert np.allclose(samples[100:2500], 0.25, atol=0.01)


# Items


def test_a_clients_item_keeps_its_id_and_its_place() -> None:
    bench = Bench()
    for ident, place in (("b", None), ("a", "root"), ("c", "b")):
        message = {
            "type": "message",
            "id": ident,
            "role": "user",
            "content": [{"type": "input_text", "text": ident}],
        }
        assert send(bench, "conversation.item.create", item=message, previous_item_id=place) == []
    assert [item.id for item in bench.session.conversation.items()] == ["a", "b", "c"]
    added = [e for e in bench.client.events if e["type"] == "conversation.item.added"]
    assert [e["previous_item_id"] for e in added] == [None, None, "b"]
    assert error(bench, "conversation.item.create", item=message)["code"] == (
        "item_create_duplicate_item_id"
    )


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "message", "role": "user"}, "item.content"),
        ({"type": "mcp_call"}, "item.type"),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_image"}]},
            "item.content[0].type",
        ),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "output_audio"}]},
            "item.content[0].type",
        ),
        (
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_audio", "audio": "AAAA"}],
            },
            "item.content[0].transcript",
        ),
        ({"type": "function_call_output", "output": "x"}, "item.call_id"),
    ],
)
def test_an_item_that_cannot_be_is_refused_by_its_field(item: dict[str, Any], param: str) -> None:
    assert error(Bench(), "conversation.item.create", item=item)["param"] == param


def test_an_id_beyond_reason_is_refused() -> None:
    refusal = error(Bench(), "conversation.item.delete", item_id="i" * 200)
    assert (refusal["code"], refusal["param"]) == ("string_above_max_length", "item_id")


def test_unknown_items_cannot_be_retrieved_deleted_or_truncated() -> None:
    bench = Bench()
    code = error(bench, "conversation.item.retrieve", item_id="x")["code"]
    assert code == "item_retrieve_invalid_item_id"
    error(bench, "conversation.item.delete", item_id="x")
    error(bench, "conversation.item.truncate", item_id="x", content_index=0, audio_end_ms=0)


@pytest.mark.parametrize("law", ["pcm", "pcmu", "pcma"])
def test_a_callers_item_is_retrieved_with_its_sound_in_the_sessions_format(law: str) -> None:
    bench = Bench()
    update(bench, audio={"input": {"format": {"type": f"audio/{law}"}}})
    bench.session.apply()
    item = bench.session.speak()
    bench.session.sounds[item] = np.full(16_000, 0.25, np.float32)
    (got,) = send(bench, "conversation.item.retrieve", item_id=item)
    (part,) = got["item"]["content"]
    decode = {"pcm": pcm.from_pcm16, "pcmu": pcm.from_pcmu, "pcma": pcm.from_pcma}[law]
    sound = decode(base64.b64decode(part["audio"]))
    assert len(sound) == pytest.approx(24_000 if law == "pcm" else 8_000, abs=50)
    assert np.allclose(sound[500:-500], 0.25, atol=0.01)


def test_without_sound_that_is_kept_and_on_a_call_an_item_has_no_audio() -> None:
    for paced in (False, True):
        bench = Bench(paced=paced)
        item = bench.session.speak()
        if paced:
            bench.session.sounds[item] = np.zeros(16_000, np.float32)
        (got,) = send(bench, "conversation.item.retrieve", item_id=item)
        assert got["item"]["content"] == [{"type": "input_audio", "transcript": None}]


def test_an_item_has_its_sound_up_to_ten_seconds() -> None:
    bench = Bench()
    for samples, has_audio in ((LONGEST * 16_000, True), (LONGEST * 16_000 + 1, False)):
        item = bench.session.speak()
        bench.session.sounds[item] = np.zeros(samples, np.float32)
        (got,) = send(bench, "conversation.item.retrieve", item_id=item)
        assert ("audio" in got["item"]["content"][0]) is has_audio


def test_an_item_is_deleted_and_gone() -> None:
    bench = Bench()
    item = bench.session.speak()
    assert send(bench, "conversation.item.delete", item_id=item) == []
    told = bench.client.events[-1]
    assert (told["type"], told["item_id"]) == ("conversation.item.deleted", item)
    assert not bench.session.conversation.items()


def test_a_truncation_is_told_by_what_is_left() -> None:
    bench = Bench()
    send(bench, "response.create")
    (reply,) = bench.session.replies.all()
    bench.session.say(reply, "eins ", 300)
    bench.session.say(reply, "zwei", 300)
    bench.session.complete(reply)
    item = bench.session.conversation.items()[0].id
    fields = {"item_id": item, "content_index": 0}
    assert send(bench, "conversation.item.truncate", audio_end_ms=400.0, **fields) == []
    assert bench.client.events[-1]["audio_end_ms"] == 400
    (got,) = send(bench, "conversation.item.retrieve", item_id=item)
    assert got["item"]["content"] == [{"type": "output_audio", "transcript": "eins"}]
    refusal = error(bench, "conversation.item.truncate", audio_end_ms=400.5, **fields)
    assert refusal["param"] == "audio_end_ms"


# Responses


def test_a_response_overrides_the_session_for_itself() -> None:
    bench = Bench()
    bench.session.say_turn("item_1")
    response = {
        "instructions": "whisper",
        "output_modalities": ["text"],
        "tools": [{"type": "function", "name": "t"}],
        "tool_choice": {"type": "function", "name": "t"},
        "max_output_tokens": 50,
        "metadata": {"client_event_id": "7"},
        "input": [
            {"type": "item_reference", "id": "item_1"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "?"}]},
        ],
    }
    assert send(bench, "response.create", response=response) == []
    (request,) = bench.session.requests
    assert (request.instructions, request.modality, request.max_tokens) == ("whisper", "text", 50)
    assert request.tools is not None
    assert (request.tools[0].name, request.tool_choice) == ("t", "t")
    assert request.input is not None
    spoken, typed = request.input
    assert spoken == Item(id="item_1", content=(Content(kind="audio"),), turn="turn_item_1")
    assert typed.content == (Content(kind="text", text="?"),)
    created = bench.client.events[-1]["response"]
    assert created["metadata"] == {"client_event_id": "7"}
    assert (created["output_modalities"], created["max_output_tokens"]) == (["text"], 50)


def test_a_response_sounds_in_a_format_of_its_own() -> None:
    bench = Bench()
    law = {"audio": {"output": {"format": {"type": "audio/pcmu"}}}}
    send(bench, "response.create", response=law)
    (reply,) = bench.session.replies.all()
    bench.session.say(reply, "Hallo.", 1000)
    bench.session.complete(reply)
    (sound,) = bench.client.sound.values()
    assert len(sound) == pytest.approx(8000, abs=50)
    created, done = (e["response"] for e in bench.client.events if "response" in e)
    assert created["audio"]["output"]["format"] == done["audio"]["output"]["format"]
    assert done["audio"]["output"]["format"] == {"type": "audio/pcmu"}
    send(bench, "response.create")
    assert bench.client.events[-1]["response"]["audio"]["output"]["format"]["type"] == "audio/pcm"


def test_a_response_may_be_told_to_call_one_tool_only() -> None:
    bench = Bench()
    for parallel, calls in ((True, 2), (False, 1)):
        send(bench, "response.create", response={"parallel_tool_calls": parallel})
        (reply,) = bench.session.replies.all()
        bench.session.call(reply)
        bench.session.call(reply)
        bench.session.complete(reply)
        assert len(bench.client.events[-2]["response"]["output"]) == calls


def test_infinite_lifts_the_sessions_limit() -> None:
    bench = Bench()
    send(bench, "response.create", response={"max_output_tokens": "inf", "conversation": "none"})
    update(bench, max_output_tokens=10)
    bench.session.apply()
    send(bench, "response.create", response={"max_output_tokens": "inf"})
    assert [request.max_tokens for request in bench.session.requests] == [None, 4096]


def test_a_response_in_another_voice_shows_the_name_it_was_asked_by() -> None:
    bench = Bench()
    voice = {"audio": {"output": {"voice": "cedar"}}}
    send(bench, "response.create", response=voice)
    assert bench.session.requests[0].voice == "bruno"
    assert bench.client.events[-1]["response"]["audio"]["output"]["voice"] == "cedar"


@pytest.mark.parametrize(
    ("response", "param"),
    [
        ({"metadata": {"a": 1}}, "response.metadata"),
        ({"metadata": {"a": "x" * 513}}, "response.metadata"),
        ({"conversation": "other"}, "response.conversation"),
        (
            {"audio": {"output": {"format": {"type": "audio/opus"}}}},
            "response.audio.output.format.type",
        ),
        ({"input": [{"type": "item_reference", "id": "nowhere"}]}, "item_id"),
        ({"prompt": {"id": "p"}}, "response.prompt"),
    ],
)
def test_a_response_that_cannot_be_is_refused(response: dict[str, Any], param: str) -> None:
    assert error(Bench(), "response.create", response=response)["param"] == param


def test_reasoning_changes_nothing_of_a_response() -> None:
    bench = Bench()
    assert send(bench, "response.create", response={"reasoning": {"effort": "high"}}) == []
    assert bench.session.requests == [ReplyRequest()]


def test_a_call_cannot_be_demanded_of_an_engine_without_tools() -> None:
    bench = Bench(info=replace(INFO, can=Abilities(text=True)))
    refusal = error(bench, "response.create", response={"tool_choice": "required"})
    assert refusal["param"] == "response.tool_choice"
    assert send(bench, "response.create", response={"tools": []}) == []


def test_a_second_response_and_a_cancel_of_none_are_told_as_clients_expect() -> None:
    bench = Bench()
    refusal = error(bench, "response.cancel")
    assert refusal["code"] == "response_cancel_not_active"
    assert refusal["message"].startswith("Cancellation failed")
    send(bench, "response.create")
    assert error(bench, "response.create")["code"] == "conversation_already_has_active_response"
    assert send(bench, "response.cancel") == []
    assert bench.client.events[-2]["response"]["status_details"]["reason"] == "client_cancelled"


# What is no event


@pytest.mark.parametrize(
    ("raw", "code", "param"),
    [
        ("nonsense", "invalid_event", None),
        ("[]", "invalid_event", None),
        ('{"event_id":"e"}', "missing_required_parameter", "type"),
        ('{"type":"conversation.dance"}', "invalid_value", "type"),
        ('{"type":7}', "invalid_value", "type"),
        ('{"type":"session.update"}', "missing_required_parameter", "session"),
    ],
)
def test_what_is_no_event_says_so(raw: str, code: str, param: str | None) -> None:
    (answer,) = Bench().send(raw)
    told: Any = answer["error"]
    assert (told["type"], told["code"], told["param"]) == ("invalid_request_error", code, param)


def test_an_event_id_that_is_no_short_string_is_not_echoed() -> None:
    for ident in (7, None, "i" * 1000):
        (answer,) = Bench().send(json.dumps({"type": "x", "event_id": ident}))
        told: Any = answer["error"]
        assert told["event_id"] is None
