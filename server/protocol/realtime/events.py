"""The server's events, by the names and fields of ``openai.types.realtime``.

Events of MCP, diarised segments and the retired ``conversation.item.created`` are not made here.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from server.errors import ErrorType, ServiceError
from server.protocol.event import ServerEvent
from server.protocol.realtime.items import WireItem
from server.protocol.realtime.response_object import Response
from server.protocol.realtime.session_object import SessionObject
from server.requests import RequestError


class ErrorBody(Struct, frozen=True, kw_only=True):
    """``event_id`` is that of the client's event at fault."""

    type: ErrorType
    code: str | None = None
    message: str
    param: str | None = None
    event_id: str | None = None


class Error(ServerEvent, kw_only=True, tag="error"):
    error: ErrorBody


# Session ----------------------------------------------------------------------------------------


class SessionCreated(ServerEvent, kw_only=True, tag="session.created"):
    session: SessionObject


class SessionUpdated(ServerEvent, kw_only=True, tag="session.updated"):
    session: SessionObject


class Conversation(Struct, frozen=True):
    id: str
    object: Literal["realtime.conversation"] = "realtime.conversation"


class ConversationCreated(ServerEvent, kw_only=True, tag="conversation.created"):
    conversation: Conversation


# The caller's sound -----------------------------------------------------------------------------


class InputCommitted(ServerEvent, kw_only=True, tag="input_audio_buffer.committed"):
    item_id: str
    previous_item_id: str | None


class InputCleared(ServerEvent, tag="input_audio_buffer.cleared"):
    pass


class SpeechStarted(ServerEvent, kw_only=True, tag="input_audio_buffer.speech_started"):
    item_id: str
    audio_start_ms: int


class SpeechStopped(ServerEvent, kw_only=True, tag="input_audio_buffer.speech_stopped"):
    item_id: str
    audio_end_ms: int


class TimeoutTriggered(ServerEvent, kw_only=True, tag="input_audio_buffer.timeout_triggered"):
    item_id: str
    audio_start_ms: int
    audio_end_ms: int


class DtmfReceived(ServerEvent, kw_only=True, tag="input_audio_buffer.dtmf_event_received"):
    """``received_at`` in unix seconds."""

    event: str
    received_at: int


# The conversation -------------------------------------------------------------------------------


class ItemAdded(ServerEvent, kw_only=True, tag="conversation.item.added"):
    item: WireItem
    previous_item_id: str | None


class ItemDone(ServerEvent, kw_only=True, tag="conversation.item.done"):
    item: WireItem
    previous_item_id: str | None


class ItemDeleted(ServerEvent, kw_only=True, tag="conversation.item.deleted"):
    item_id: str


class ItemRetrieved(ServerEvent, kw_only=True, tag="conversation.item.retrieved"):
    item: WireItem


class ItemTruncated(ServerEvent, kw_only=True, tag="conversation.item.truncated"):
    item_id: str
    content_index: int = 0
    audio_end_ms: int


class TranscriptionDelta(
    ServerEvent, kw_only=True, tag="conversation.item.input_audio_transcription.delta"
):
    item_id: str
    content_index: int = 0
    delta: str


class TranscriptionUsage(Struct, frozen=True, tag="duration"):
    seconds: float


class TranscriptionCompleted(
    ServerEvent, kw_only=True, tag="conversation.item.input_audio_transcription.completed"
):
    item_id: str
    content_index: int = 0
    transcript: str
    usage: TranscriptionUsage


class TranscriptionError(Struct, frozen=True, kw_only=True):
    """Without ``param``, which has no sense here: a client fails on a null."""

    type: str = "transcription_error"
    code: str = "transcription_failed"
    message: str


class TranscriptionFailed(
    ServerEvent, kw_only=True, tag="conversation.item.input_audio_transcription.failed"
):
    item_id: str
    content_index: int = 0
    error: TranscriptionError


# Responses --------------------------------------------------------------------------------------


class ResponseCreated(ServerEvent, kw_only=True, tag="response.created"):
    response: Response


class ResponseDone(ServerEvent, kw_only=True, tag="response.done"):
    response: Response


class RateLimitsUpdated(ServerEvent, kw_only=True, tag="rate_limits.updated"):
    """Always empty: this server limits sessions, not tokens."""

    rate_limits: tuple[()] = ()


class _OfItem(ServerEvent, kw_only=True):
    response_id: str
    item_id: str
    output_index: int


class _OfPart(_OfItem, kw_only=True):
    content_index: int = 0


class OutputItemAdded(ServerEvent, kw_only=True, tag="response.output_item.added"):
    response_id: str
    output_index: int
    item: WireItem


class OutputItemDone(ServerEvent, kw_only=True, tag="response.output_item.done"):
    response_id: str
    output_index: int
    item: WireItem


class EventPart(Struct, frozen=True, kw_only=True):
    """A content part as its events show it: other type names than in an item."""

    type: Literal["audio", "text"]
    text: str | UnsetType = UNSET
    transcript: str | UnsetType = UNSET


class ContentPartAdded(_OfPart, kw_only=True, tag="response.content_part.added"):
    part: EventPart


class ContentPartDone(_OfPart, kw_only=True, tag="response.content_part.done"):
    part: EventPart


class OutputTextDelta(_OfPart, kw_only=True, tag="response.output_text.delta"):
    delta: str


class OutputTextDone(_OfPart, kw_only=True, tag="response.output_text.done"):
    text: str


class OutputAudioDelta(_OfPart, kw_only=True, tag="response.output_audio.delta"):
    carries_sound = True
    delta: Raw


class OutputAudioDone(_OfPart, tag="response.output_audio.done"):
    pass


class OutputTranscriptDelta(_OfPart, kw_only=True, tag="response.output_audio_transcript.delta"):
    delta: str


class OutputTranscriptDone(_OfPart, kw_only=True, tag="response.output_audio_transcript.done"):
    transcript: str


class FunctionArgumentsDelta(_OfItem, kw_only=True, tag="response.function_call_arguments.delta"):
    call_id: str
    delta: str


class FunctionArgumentsDone(_OfItem, kw_only=True, tag="response.function_call_arguments.done"):
    call_id: str
    name: str
    arguments: str


# Paced playout: WebRTC and telephones -----------------------------------------------------------


class OutputBufferStarted(ServerEvent, kw_only=True, tag="output_audio_buffer.started"):
    response_id: str


class OutputBufferStopped(ServerEvent, kw_only=True, tag="output_audio_buffer.stopped"):
    response_id: str


class OutputBufferCleared(ServerEvent, kw_only=True, tag="output_audio_buffer.cleared"):
    response_id: str


def refusal(error: RequestError | ServiceError, event_id: str | None = None) -> Error:
    """Tells a client why what it asked for, in its event ``event_id``, was not done."""
    body = ErrorBody(
        type=error.type if isinstance(error, ServiceError) else "invalid_request_error",
        code=error.code,
        message=error.message,
        param=error.param,
        event_id=event_id,
    )
    return Error(error=body)
