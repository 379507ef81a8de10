"""What a session object asks of the session, and how the session's settings look as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from engine.contract import EngineInfo, Tool, TurnDetection
from server.protocol.realtime import bounds
from server.protocol.realtime.session_object import (
    Audio,
    AudioInput,
    AudioOutput,
    FunctionChoice,
    FunctionTool,
    MaxTokens,
    RealtimeSession,
    SemanticVad,
    ServerVad,
    ToolChoice,
    Transcription,
)
from server.requests import RequestError, SessionSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.protocol.realtime.names import LocalNames

_PARAMS = {
    "voice": "audio.output.voice",
    "turns": "audio.input.turn_detection",
    "language": "audio.input.transcription.language",
    "transcribe": "audio.input.transcription",
}


def param_of(setting: str) -> str:
    """The dotted path of the wire field that carries the engine's ``setting``."""
    return f"session.{_PARAMS.get(setting, setting)}"


def max_tokens_of(limit: MaxTokens) -> int | None:
    return None if isinstance(limit, str) else limit


def instructions_of(text: str, at: str) -> str:
    """``text``, no longer than :data:`bounds.INSTRUCTIONS` or refused with ``RequestError``."""
    bounds.check_text(text, bounds.INSTRUCTIONS, at)
    return text


def tools_of(tools: Sequence[FunctionTool], at: str) -> tuple[Tool, ...]:
    """The engine's form of ``tools``, no larger than :data:`bounds.TOOLS` or refused with
    ``RequestError``.
    """
    bounds.check_json(tools, bounds.TOOLS, at)
    return tuple(
        Tool(name=t.name, description=t.description, parameters=t.parameters) for t in tools
    )


def tool_choice_of(choice: ToolChoice, info: EngineInfo, at: str) -> str:
    """``auto``, ``none``, ``required`` or a tool's name.

    Raises:
        RequestError: a call is demanded of an engine that makes none.
    """
    name = choice.name if isinstance(choice, FunctionChoice) else choice
    if name not in ("auto", "none") and not info.can.tools:
        raise RequestError(
            "invalid_value",
            f"Invalid '{at}': this server's model cannot call tools; "
            f"expected 'auto' or 'none', got {name!r}.",
            at,
        )
    return name


def session_of(
    settings: SessionSettings, info: EngineInfo, *, id: str, model: str, expires_at: int | None
) -> RealtimeSession:
    """The session object that says what ``settings`` hold."""
    hears = settings.transcribe and info.can.transcripts
    transcription = Transcription(model=info.name, language=settings.language or UNSET)
    return RealtimeSession(
        id=id,
        model=model,
        expires_at=UNSET if expires_at is None else expires_at,
        output_modalities=[settings.modality],
        instructions=settings.instructions,
        audio=Audio(
            input=AudioInput(
                transcription=transcription if hears else None,
                turn_detection=_detection_of(settings),
            ),
            output=AudioOutput(voice=settings.voice or next(iter(info.voices), UNSET)),
        ),
        tools=[
            FunctionTool(name=t.name, description=t.description, parameters=t.parameters)
            for t in settings.tools
        ],
        tool_choice=_choice_of(settings.tool_choice),
        max_output_tokens="inf" if settings.max_tokens is None else settings.max_tokens,
    )


def _choice_of(name: str) -> ToolChoice:
    match name:
        case "auto" | "none" | "required":
            return name
    return FunctionChoice(name)


def _detection_of(settings: SessionSettings) -> ServerVad | SemanticVad | None:
    turns = settings.turns
    if turns.kind == "none":
        return None
    if turns.kind == "semantic":
        return SemanticVad(
            eagerness=turns.eagerness,
            create_response=settings.create_response,
            interrupt_response=settings.interrupt_response,
        )
    return ServerVad(
        threshold=turns.threshold,
        prefix_padding_ms=turns.prefix_ms,
        silence_duration_ms=turns.silence_ms,
        idle_timeout_ms=settings.idle_timeout_ms,
        create_response=settings.create_response,
        interrupt_response=settings.interrupt_response,
    )


def settings_of(
    session: RealtimeSession, now: SessionSettings, info: EngineInfo, names: LocalNames
) -> SessionSettings:
    """What ``session`` asks for; ``now`` stands where it says nothing.

    Raises:
        RequestError: a name means nothing here, there is too much of something, or tool calls are
            demanded of an engine without.
    """
    names.check_model(session.model, "session.model")
    voice = session.audio.output.voice
    settings = replace(
        now,
        instructions=instructions_of(session.instructions, "session.instructions"),
        voice=now.voice if voice is UNSET else names.voice(voice, "session.audio.output.voice"),
        modality=session.output_modalities[0],
        tools=tools_of(session.tools, "session.tools"),
        tool_choice=tool_choice_of(session.tool_choice, info, "session.tool_choice"),
        max_tokens=max_tokens_of(session.max_output_tokens),
    )
    settings = _with_detection(settings, session.audio.input.turn_detection)
    return _with_transcription(settings, session.audio.input.transcription, names)


def _with_transcription(
    settings: SessionSettings, wanted: Transcription | None, names: LocalNames
) -> SessionSettings:
    if wanted is None:
        return replace(settings, transcribe=False)
    if wanted.model is not UNSET:
        names.check_transcriber(wanted.model, "session.audio.input.transcription.model")
    language = settings.language if wanted.language is UNSET else wanted.language
    return replace(settings, transcribe=True, language=language)


def _with_detection(
    settings: SessionSettings, wanted: ServerVad | SemanticVad | None
) -> SessionSettings:
    if wanted is None:
        return replace(settings, turns=TurnDetection(kind="none"), idle_timeout_ms=None)
    if isinstance(wanted, ServerVad):
        idle = wanted.idle_timeout_ms
        turns = TurnDetection(
            kind="server",
            threshold=wanted.threshold,
            prefix_ms=wanted.prefix_padding_ms,
            silence_ms=wanted.silence_duration_ms,
        )
    else:
        idle = None
        turns = TurnDetection(kind="semantic", eagerness=wanted.eagerness)
    return replace(
        settings,
        turns=turns,
        idle_timeout_ms=idle,
        create_response=wanted.create_response,
        interrupt_response=wanted.interrupt_response,
    )


def effective(session: RealtimeSession, info: EngineInfo) -> RealtimeSession:
    """``session`` as it will be shown: an engine that cannot transcribe has transcription off."""
    if info.can.transcripts or session.audio.input.transcription is None:
        return session
    heard = replace(session.audio.input, transcription=None)
    return replace(session, audio=replace(session.audio, input=heard))
