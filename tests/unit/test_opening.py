"""How a session begins: what a client brings along is merged, checked and shown from the start."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from openai.types.realtime import RealtimeSessionCreateRequest
from openai.types.realtime.realtime_transcription_session_create_request import (
    RealtimeTranscriptionSessionCreateRequest,
)
from pydantic import TypeAdapter

from engine.contract import Abilities, EngineInfo, TurnDetection
from server.protocol.adapter import Terms
from server.protocol.realtime.opening import Kind, Opening, open_session
from server.protocol.realtime.session_object import RealtimeSession, TranscriptionSession
from server.requests import RequestError, SessionSettings
from server.settings import Names
from tests.conformance.fake_session import INFO

DEFAULTS = SessionSettings(instructions="Be brief.")


def opened(
    given: dict[str, Any] | None = None, kind: Kind = "realtime", info: EngineInfo = INFO
) -> Opening:
    terms = Terms(info=info, names=Names(), settings=DEFAULTS, expires_at=7)
    return open_session(given, terms, id="sess_1", model="gpt-realtime", kind=kind)


def refused(given: dict[str, Any] | None, **where: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        opened(given, **where)
    return caught.value


def test_who_brings_nothing_gets_the_operators_session() -> None:
    opening = opened()
    shown = opening.shown
    TypeAdapter(RealtimeSessionCreateRequest).validate_python(msgspec.to_builtins(shown))
    assert isinstance(shown, RealtimeSession)
    assert (shown.instructions, shown.model, shown.expires_at) == ("Be brief.", "gpt-realtime", 7)
    assert opening.settings == replace(DEFAULTS, voice="anna")


def test_what_is_brought_is_merged_into_the_defaults() -> None:
    given = {"type": "realtime", "audio": {"input": {"turn_detection": {"threshold": 0.9}}}}
    opening = opened(given)
    assert isinstance(opening.shown, RealtimeSession)
    assert opening.shown.instructions == "Be brief."
    assert opening.settings.turns == TurnDetection(kind="server", threshold=0.9)


def test_a_transcription_session_only_listens() -> None:
    for opening in (opened(kind="transcription"), opened({"type": "transcription"})):
        shown = opening.shown
        assert isinstance(shown, TranscriptionSession)
        plain = msgspec.to_builtins(shown)
        TypeAdapter(RealtimeTranscriptionSessionCreateRequest).validate_python(plain)
        assert (plain["object"], plain["id"]) == ("realtime.transcription_session", "sess_1")
        assert plain["audio"]["input"]["transcription"] == {"model": "fake"}
        assert not plain["audio"]["input"]["turn_detection"]["create_response"]
        assert not opening.settings.replies
        assert not opening.settings.create_response


def test_a_transcription_session_keeps_the_models_name() -> None:
    heard = {"transcription": {"model": "gpt-realtime-whisper"}, "turn_detection": None}
    opening = opened({"type": "transcription", "audio": {"input": heard}})
    shown = msgspec.to_builtins(opening.shown)["audio"]["input"]
    assert shown["transcription"] == {"model": "gpt-realtime-whisper"}
    assert opening.settings.turns.kind == "none"


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({}, "session.type"),
        ({"type": "translation"}, "session.type"),
        ({"type": "realtime", "model": "llama"}, "session.model"),
        (
            {"type": "realtime", "audio": {"output": {"voice": "nobody"}}},
            "session.audio.output.voice",
        ),
        (
            {"type": "transcription", "audio": {"input": {"transcription": None}}},
            "session.audio.input.transcription",
        ),
        (
            {
                "type": "transcription",
                "audio": {"input": {"turn_detection": {"idle_timeout_ms": 5000}}},
            },
            "session.audio.input.turn_detection.idle_timeout_ms",
        ),
    ],
)
def test_a_session_that_cannot_be_is_refused_by_its_field(
    given: dict[str, Any], param: str
) -> None:
    assert refused(given).param == param


def test_who_insists_on_transcription_is_given_nothing_else() -> None:
    assert refused({"type": "realtime"}, kind="transcription").param == "session.type"


@pytest.mark.parametrize(
    "info",
    [
        replace(INFO, replies="by_itself"),
        replace(INFO, can=Abilities(text=True)),
    ],
)
def test_an_engine_that_cannot_only_transcribe_says_so(info: EngineInfo) -> None:
    assert refused(None, kind="transcription", info=info).param == "session.type"


ENGLISH = replace(INFO, languages=("en",))


def hears(**transcription: Any) -> dict[str, Any]:
    audio = {"input": {"transcription": transcription}}
    return {"type": "transcription", "audio": audio}


@pytest.mark.parametrize(
    ("given", "language"),
    [
        ({"language": "en"}, "en"),
        ({"language": "en-US"}, "en-US"),
        ({"language": ""}, ""),
        ({"languages": ["de", "en"]}, "en"),
        ({"languages": []}, ""),
        ({"languages": ["de", "en"], "language": "en-GB"}, "en-GB"),
        ({}, ""),
    ],
)
def test_a_language_that_is_understood_is_taken(given: dict[str, Any], language: str) -> None:
    opening = opened(hears(**given), info=ENGLISH)
    assert opening.settings.language == language
    shown = msgspec.to_builtins(opening.shown)["audio"]["input"]["transcription"]
    assert shown == {"model": "fake"} | given


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"language": "de"}, "language"),
        ({"languages": ["de", "fr"]}, "languages"),
        ({"model": "gpt-4o-transcribe-diarize"}, "model"),
        ({"delay": "none"}, "delay"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_name(given: dict[str, Any], field: str) -> None:
    error = refused(hears(**given), info=ENGLISH)
    assert error.param == f"session.audio.input.transcription.{field}"


def test_a_model_that_converses_is_said_to_be_no_transcription_model() -> None:
    assert "converses" in refused(hears(model="gpt-realtime")).message


def test_a_delay_reaches_the_engine() -> None:
    assert opened(hears(delay="high")).settings.delay == "high"
