"""The server's events, by the names and fields of ``openai.types.live``.

Sound has two forms: what the client itself is sent, in its session's format, and what sidebands are
shown, always 16-bit at 24 kHz and with its place on the session's timeline.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Raw, Struct

from server.errors import ServiceError
from server.protocol.event import ServerEvent
from server.protocol.live.config import Resource
from server.protocol.live.timeline import Words
from server.requests import RequestError


class _Answer(ServerEvent, kw_only=True, omit_defaults=True):
    """Base of what answers a client's event, which it names if that had an id."""

    client_event_id: str | None = None


class ErrorBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    type: Literal["invalid_request_error", "server_error"]
    code: str
    message: str
    param: str | None = None
    client_event_id: str | None = None


class Error(_Answer, kw_only=True, tag="error"):
    error: ErrorBody


class SessionStarted(_Answer, kw_only=True, tag="session.started"):
    session: Resource


class SessionUpdated(_Answer, kw_only=True, tag="session.updated"):
    session: Resource


class InputAudioMuted(_Answer, kw_only=True, tag="session.input_audio.muted"):
    pass


class InputAudioUnmuted(_Answer, kw_only=True, tag="session.input_audio.unmuted"):
    pass


class Placed(_Answer, kw_only=True):
    """Base of what has a place on the session's timeline, in milliseconds from its beginning."""

    start_ms: int
    end_ms: int


class Appended(Placed, kw_only=True):
    """Base of what tells a client that its words hold."""


class InstructionsAppended(Appended, kw_only=True, tag="session.instructions.appended"):
    pass


class ThinkingAppended(Appended, kw_only=True, tag="session.thinking.appended"):
    pass


class CommentaryAppended(Appended, kw_only=True, tag="session.commentary.appended"):
    pass


class InputTranscriptDelta(Placed, kw_only=True, tag="session.input_transcript.delta"):
    delta: str


class OutputTranscriptDelta(Placed, kw_only=True, tag="session.output_transcript.delta"):
    delta: str


class OutputAudioDelta(ServerEvent, kw_only=True, tag="session.output_audio.delta"):
    carries_sound = True
    delta: Raw


class ReflectedOutput(Placed, kw_only=True, tag="session.output_audio.delta"):
    carries_sound = True
    delta: Raw


class ReflectedInput(Struct, kw_only=True, tag="session.input_audio.append"):
    audio: Raw


class Delegation(Struct, frozen=True):
    id: str
    type: Literal["delegation"] = "delegation"
    target: Literal["client"] = "client"


class DelegationCreated(ServerEvent, kw_only=True, tag="session.delegation.created"):
    offset_ms: int
    delegation: Delegation


class Usage(Struct, frozen=True):
    """Whole seconds of the session so far."""

    seconds: int


class SessionUsageUpdated(ServerEvent, kw_only=True, tag="session.usage.updated"):
    usage: Usage


CloseReason = Literal["close_requested", "expired", "remote_hangup", "connection_lost"]


class SessionClosed(_Answer, kw_only=True, tag="session.closed"):
    reason: CloseReason
    session: Resource
    usage: Usage


def refusal(error: RequestError | ServiceError, event_id: str | None = None) -> Error:
    """Tells a client why its event, named by its ``event_id``, was not taken."""
    code = "invalid_audio" if error.param == "audio" else error.code
    body = ErrorBody(
        type=error.type if isinstance(error, ServiceError) else "invalid_request_error",
        code=code,
        message=error.message,
        param=error.param,
        client_event_id=event_id,
    )
    return Error(error=body, client_event_id=event_id)


def failure(code: str, message: str) -> Error:
    """Tells of what went wrong on our side."""
    return Error(error=ErrorBody(type="server_error", code=code, message=message))


def said(words: Words) -> InputTranscriptDelta:
    """Words of the caller's."""
    return InputTranscriptDelta(delta=words.text, start_ms=words.start_ms, end_ms=words.end_ms)


def spoken(words: Words) -> OutputTranscriptDelta:
    """Words said to the caller."""
    return OutputTranscriptDelta(delta=words.text, start_ms=words.start_ms, end_ms=words.end_ms)
