"""The response object, and the parameters of ``response.create``."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from engine.contract import EngineInfo, Modality, Usage
from server.happenings import ReplyEnded, ReplyStarted, Status
from server.protocol.realtime.effect import (
    instructions_of,
    max_tokens_of,
    tool_choice_of,
    tools_of,
)
from server.protocol.realtime.items import ItemReference, WireItem, to_wire
from server.protocol.realtime.session_object import (
    Format,
    MaxTokens,
    Modalities,
    Name,
    ToolChoice,
    Tools,
)
from server.requests import ReplyRequest

Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]],
    Meta(max_length=16),
]
LONGEST = 4096
"""Tokens: the largest limit that can be asked for."""


class VoiceReference(Struct, frozen=True):
    id: Name


class OutputParams(Struct, frozen=True):
    format: Format | None = None
    voice: Name | VoiceReference | None = None


class AudioParams(Struct, frozen=True):
    output: OutputParams | None = None


class ResponseParams(Struct, frozen=True, kw_only=True):
    """What this response does differently; null and absent leave what the session says."""

    conversation: Literal["auto", "none"] | None = None
    input: Annotated[list[WireItem | ItemReference], Meta(max_length=1000)] | None = None
    instructions: str | None = None
    output_modalities: Modalities | None = None
    audio: AudioParams | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: MaxTokens | None = None
    metadata: Metadata | None = None
    prompt: None = None

    @property
    def format(self) -> Format | None:
        return self.audio.output.format if self.audio and self.audio.output else None

    @property
    def voice(self) -> str | None:
        voice = self.audio.output.voice if self.audio and self.audio.output else None
        return voice.id if isinstance(voice, VoiceReference) else voice


def request_of(params: ResponseParams, info: EngineInfo, session_limit: int | None) -> ReplyRequest:
    """The reply that ``params`` ask for, but for ``input`` and ``voice``, which need the session.

    ``inf`` lifts the session's limit to the largest there is.

    Raises:
        RequestError: there is too much of something, or a tool call is demanded of an engine that
            makes none.
    """
    limit = params.max_output_tokens
    unlimited = LONGEST if session_limit is not None else None
    choice, instructions, tools = params.tool_choice, params.instructions, params.tools
    return ReplyRequest(
        out_of_band=params.conversation == "none",
        instructions=instructions and instructions_of(instructions, "response.instructions"),
        modality=params.output_modalities[0] if params.output_modalities else None,
        tools=None if tools is None else tools_of(tools, "response.tools"),
        tool_choice=tool_choice_of(choice, info, "response.tool_choice") if choice else None,
        parallel_calls=params.parallel_tool_calls,
        max_tokens=unlimited if limit == "inf" else limit and max_tokens_of(limit),
        metadata=params.metadata,
    )


class ErrorDetails(Struct, frozen=True, kw_only=True):
    type: str
    code: str | UnsetType = UNSET
    message: str | UnsetType = UNSET


class StatusDetails(Struct, frozen=True, kw_only=True):
    type: Status
    reason: str | UnsetType = UNSET
    error: ErrorDetails | UnsetType = UNSET


class CachedTokensDetails(Struct, frozen=True, kw_only=True):
    text_tokens: int
    audio_tokens: int = 0
    image_tokens: int = 0


class InputTokenDetails(Struct, frozen=True, kw_only=True):
    text_tokens: int
    audio_tokens: int
    image_tokens: int = 0
    cached_tokens: int
    cached_tokens_details: CachedTokensDetails


class OutputTokenDetails(Struct, frozen=True, kw_only=True):
    text_tokens: int
    audio_tokens: int


class ResponseUsage(Struct, frozen=True, kw_only=True):
    total_tokens: int
    input_tokens: int
    output_tokens: int
    input_token_details: InputTokenDetails
    output_token_details: OutputTokenDetails


class OutputShown(Struct, frozen=True, kw_only=True):
    """``voice`` is a string, and left out where the engine has no voices to name."""

    format: Format
    voice: str | UnsetType


class ResponseAudio(Struct, frozen=True):
    output: OutputShown


class Response(Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["realtime.response"] = "realtime.response"
    status: Status | Literal["in_progress"]
    status_details: StatusDetails | None = None
    output: list[WireItem]
    conversation_id: str | None
    output_modalities: list[Modality]
    max_output_tokens: MaxTokens
    audio: ResponseAudio
    usage: ResponseUsage | None = None
    metadata: dict[str, str] | None


def response_of(
    reply: ReplyStarted | ReplyEnded, conversation: str, output: OutputShown
) -> Response:
    """``reply`` as the wire shows it; ``output`` is how it sounds there."""
    ended = reply if isinstance(reply, ReplyEnded) else None
    return Response(
        id=reply.reply,
        status=ended.status if ended else "in_progress",
        status_details=_details_of(ended) if ended else None,
        output=[to_wire(item) for item in ended.output] if ended else [],
        conversation_id=None if reply.out_of_band else conversation,
        output_modalities=[reply.modality],
        max_output_tokens="inf" if reply.max_tokens is None else reply.max_tokens,
        audio=ResponseAudio(output),
        usage=usage_of(ended.usage, ended.heard_ms, ended.spoken_ms) if ended else None,
        metadata=reply.metadata,
    )


def _details_of(ended: ReplyEnded) -> StatusDetails | None:
    if ended.status == "completed":
        return None
    if ended.status == "failed":
        error = ErrorDetails(
            type="server_error",
            code=ended.error_code or UNSET,
            message=ended.error_message or UNSET,
        )
        return StatusDetails(type="failed", error=error)
    # The API has no word for a session that ends under a reply.
    reason = ended.reason if ended.reason != "session_ended" else None
    return StatusDetails(type=ended.status, reason=reason or UNSET)


def usage_of(usage: Usage, heard_ms: int, spoken_ms: int) -> ResponseUsage:
    """Tokens by OpenAI's convention: 100 ms of a caller is one, and 50 ms of a reply."""
    heard, spoken = heard_ms // 100, spoken_ms // 50
    return ResponseUsage(
        total_tokens=usage.input_tokens + heard + usage.output_tokens + spoken,
        input_tokens=usage.input_tokens + heard,
        output_tokens=usage.output_tokens + spoken,
        input_token_details=InputTokenDetails(
            text_tokens=usage.input_tokens,
            audio_tokens=heard,
            cached_tokens=usage.cached_tokens,
            cached_tokens_details=CachedTokensDetails(text_tokens=usage.cached_tokens),
        ),
        output_token_details=OutputTokenDetails(
            text_tokens=usage.output_tokens, audio_tokens=spoken
        ),
    )
