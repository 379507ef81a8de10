"""What an update makes of a session object, and what the session is then asked for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.realtime import RealtimeSessionCreateRequest
from pydantic import TypeAdapter

from engine.contract import Abilities, EngineInfo, Tool, TurnDetection
from server.protocol.names import LocalNames
from server.protocol.realtime import effect
from server.protocol.realtime.session_object import RealtimeSession, SessionObject, merge
from server.requests import RequestError, SessionSettings
from server.settings import Names

INFO = EngineInfo(
    name="fake",
    input_rate=16_000,
    output_rate=24_000,
    voices=("anna", "bruno"),
    can=Abilities(text=True, tools=True, transcripts=True),
)
MODEL = "gpt-realtime"


def session_of(settings: SessionSettings | None = None) -> RealtimeSession:
    settings = settings or SessionSettings()
    return effect.session_of(settings, INFO, id="sess_1", model=MODEL, expires_at=None)


def settings_of(session: SessionObject, info: EngineInfo = INFO) -> SessionSettings:
    return effect.settings_of(session, SessionSettings(), info, LocalNames(Names(), info, MODEL))


def merged(*updates: dict[str, Any]) -> RealtimeSession:
    session: SessionObject = session_of()
    for update in updates:
        session = merge(session, {"type": "realtime", **update})
    assert isinstance(session, RealtimeSession)
    return session


def refused(update: dict[str, Any]) -> RequestError:
    with pytest.raises(RequestError) as caught:
        merged(update)
    return caught.value


detections = st.one_of(
    st.just(TurnDetection(kind="none")),
    st.builds(
        TurnDetection,
        kind=st.just("server"),
        threshold=st.floats(0, 1),
        prefix_ms=st.integers(0, 1000),
        silence_ms=st.integers(0, 2000),
    ),
    st.builds(
        TurnDetection,
        kind=st.just("semantic"),
        eagerness=st.sampled_from(["low", "medium", "high", "auto"]),
    ),
)


@st.composite
def all_settings(draw: st.DrawFn) -> SessionSettings:
    turns = draw(detections)
    heard = turns.kind != "none"
    idle = st.none() | st.integers(1000, 60_000)
    return SessionSettings(
        instructions=draw(st.text(max_size=5)),
        voice=draw(st.sampled_from(["anna", "bruno"])),
        modality=draw(st.sampled_from(["audio", "text"])),
        turns=turns,
        create_response=draw(st.booleans()) if heard else True,
        interrupt_response=draw(st.booleans()) if heard else True,
        idle_timeout_ms=draw(idle) if turns.kind == "server" else None,
        transcribe=draw(st.booleans()),
        tools=draw(st.sampled_from([(), (Tool(name="t", parameters={"type": "object"}),)])),
        tool_choice=draw(st.sampled_from(["auto", "none", "required", "t"])),
        max_tokens=draw(st.none() | st.integers(1, 4096)),
    )


@given(all_settings())
def test_settings_survive_the_way_to_the_wire_and_back(settings: SessionSettings) -> None:
    assert settings_of(session_of(settings)) == settings


@given(all_settings())
def test_a_session_sent_back_as_it_was_given_changes_nothing(settings: SessionSettings) -> None:
    session = session_of(settings)
    TypeAdapter(RealtimeSessionCreateRequest).validate_python(msgspec.to_builtins(session))
    assert merge(session, msgspec.to_builtins(session)) == session


def test_absent_keeps_and_objects_merge_at_every_depth() -> None:
    session = merged(
        {"instructions": "be brief", "audio": {"output": {"voice": "bruno"}}},
        {"audio": {"input": {"turn_detection": {"threshold": 0.9}}}},
    )
    settings = settings_of(session)
    assert (settings.instructions, settings.voice) == ("be brief", "bruno")
    assert settings.turns == TurnDetection(kind="server", threshold=0.9)


def test_null_turns_detection_off_and_absent_does_not() -> None:
    off = merged({"audio": {"input": {"turn_detection": None}}}, {"audio": {"input": {}}})
    assert off.audio.input.turn_detection is None
    assert settings_of(off).turns.kind == "none"
    assert settings_of(merged({"audio": {"input": {}}})).turns.kind == "server"


def test_a_piece_of_detection_that_is_off_says_which_kind_is_missing() -> None:
    session = merged({"audio": {"input": {"turn_detection": None}}})
    piece = {"type": "realtime", "audio": {"input": {"turn_detection": {"threshold": 0.9}}}}
    with pytest.raises(RequestError) as caught:
        merge(session, piece)
    assert caught.value.code == "missing_required_parameter"
    assert caught.value.param == "session.audio.input.turn_detection.type"


def test_another_kind_of_detection_keeps_what_both_kinds_know() -> None:
    detection = {"create_response": False, "silence_duration_ms": 900}
    session = merged(
        {"audio": {"input": {"turn_detection": detection}}},
        {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "low"}}}},
    )
    settings = settings_of(session)
    assert settings.turns == TurnDetection(kind="semantic", eagerness="low")
    assert not settings.create_response


def test_empty_and_null_clear_text_lists_and_limits() -> None:
    tool = {"type": "function", "name": "t"}
    full = {"instructions": "x", "tools": [tool], "max_output_tokens": 7, "tool_choice": "none"}
    for empty in (
        {"instructions": "", "tools": [], "max_output_tokens": "inf", "tool_choice": "auto"},
        dict.fromkeys(full),
    ):
        assert merged(full, empty) == session_of()


def test_null_for_an_object_that_is_always_there_says_nothing() -> None:
    nulls = {"audio": {"input": None, "output": {"format": None, "voice": None}}}
    assert merged({"audio": None}, nulls) == session_of()


def test_what_has_no_effect_is_shown_as_it_was_given() -> None:
    heard: dict[str, Any] = {
        "noise_reduction": {"type": "far_field", "strength": 0.5},
        "transcription": {"prompt": "names", "keywords": ["Ulm"]},
    }
    given: dict[str, Any] = {
        "audio": {"input": heard},
        "truncation": {"type": "retention_ratio", "retention_ratio": 0.8},
        "tracing": {"workflow_name": "calls"},
        "reasoning": {"effort": "low"},
    }
    session = merged(given)
    shown = msgspec.to_builtins(session)
    assert shown["audio"]["input"]["noise_reduction"] == heard["noise_reduction"]
    assert heard["transcription"].items() <= shown["audio"]["input"]["transcription"].items()
    assert {name: shown[name] for name in given if name != "audio"} == {
        name: given[name] for name in given if name != "audio"
    }
    assert settings_of(session) == settings_of(session_of())


def test_read_only_and_unknown_fields_are_ignored() -> None:
    noise = {"id": "mine", "object": "x", "expires_at": 1, "client_secret": {}, "later": [1]}
    assert merged(noise) == session_of()


def test_only_what_the_client_said_of_transcription_is_echoed() -> None:
    off = {"audio": {"input": {"transcription": None}}}
    on = {"audio": {"input": {"transcription": {"model": "whisper-1", "language": None}}}}
    echoed = msgspec.to_builtins(merged(off, on))["audio"]["input"]["transcription"]
    assert echoed == {"model": "whisper-1"}
    assert not settings_of(merged(off)).transcribe


def test_an_engine_that_cannot_transcribe_shows_transcription_off() -> None:
    deaf = msgspec.structs.replace(INFO, can=Abilities())
    shown = effect.effective(session_of(), deaf)
    assert shown.audio.input.transcription is None
    assert not settings_of(shown, deaf).transcribe


def test_a_voice_by_reference_is_echoed_as_a_string() -> None:
    session = merged({"audio": {"output": {"voice": {"id": "alloy"}}}})
    assert session.audio.output.voice == "alloy"
    assert settings_of(session).voice == "anna"


def test_stock_names_are_echoed_and_local_ones_meant() -> None:
    session = merged({"model": "gpt-realtime-2", "audio": {"output": {"voice": "cedar"}}})
    assert (session.model, session.audio.output.voice) == ("gpt-realtime-2", "cedar")
    assert settings_of(session).voice == "anna"


@pytest.mark.parametrize(
    ("update", "param"),
    [
        ({"audio": {"input": {"format": {"rate": 16000}}}}, "session.audio.input.format.rate"),
        (
            {"audio": {"input": {"turn_detection": {"threshold": 1.5}}}},
            "session.audio.input.turn_detection.threshold",
        ),
        (
            {"audio": {"input": {"turn_detection": {"silence_duration_ms": 0.5}}}},
            "session.audio.input.turn_detection.silence_duration_ms",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "none"}}}},
            "session.audio.input.turn_detection.type",
        ),
        ({"audio": {"output": {"speed": 1.2}}}, "session.audio.output.speed"),
        ({"output_modalities": ["audio", "text"]}, "session.output_modalities"),
        ({"max_output_tokens": 5000}, "session.max_output_tokens"),
        ({"tools": [{"type": "mcp", "name": "x"}]}, "session.tools[0].type"),
        ({"tool_choice": {"type": "mcp", "server_label": "x"}}, "session.tool_choice.type"),
        ({"prompt": {"id": "p"}}, "session.prompt"),
        ({"include": ["item.input_audio_transcription.logprobs"]}, "session.include"),
        ({"type": "transcription"}, "session.type"),
        ({"audio": 3}, "session.audio"),
    ],
)
def test_what_is_not_served_is_refused_by_its_name(update: dict[str, Any], param: str) -> None:
    error = refused(update)
    assert (error.code, error.param) == ("invalid_value", param)


def test_the_type_of_a_session_must_be_said() -> None:
    with pytest.raises(RequestError) as caught:
        merge(session_of(), {})
    assert caught.value.param == "session.type"


@pytest.mark.parametrize(
    ("update", "param"),
    [
        ({"model": "llama"}, "session.model"),
        ({"audio": {"output": {"voice": "nobody"}}}, "session.audio.output.voice"),
        (
            {"audio": {"input": {"transcription": {"model": "ears"}}}},
            "session.audio.input.transcription.model",
        ),
    ],
)
def test_names_that_mean_nothing_here_are_refused(update: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        settings_of(merged(update))
    assert caught.value.param == param


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "t"}])
def test_a_call_cannot_be_demanded_of_an_engine_without_tools(choice: Any) -> None:
    plain = msgspec.structs.replace(INFO, can=Abilities(transcripts=True))
    tools = {"tools": [{"type": "function", "name": "t"}]}
    assert settings_of(merged(tools), plain).tools
    with pytest.raises(RequestError) as caught:
        settings_of(merged(tools, {"tool_choice": choice}), plain)
    assert caught.value.param == "session.tool_choice"
