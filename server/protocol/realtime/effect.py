"""What a session object asks of the session, and how the session's settings look as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from engine.contract import EngineInfo, Tool, TurnDetection
from server.protocol import bounds
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
    SessionObject,
    ToolChoice,
    Transcription,
    TranscriptionAudio,
    TranscriptionSession,
)
from server.requests import RequestError, SessionSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.protocol.names import LocalNames

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
    """The engine's form of ``tools``.

    Raises:
        RequestError: they are larger than :data:`bounds.TOOLS`, or a schema holds a number that
            JSON can say and an engine in a process of its own cannot be told.
    """
    bounds.check_json(tools, bounds.TOOLS, at)
    try:
        msgspec.msgpack.encode(tools)
    except OverflowError:
        message = f"Invalid '{at}': expected whole numbers from -2**63 to 2**64 - 1, got another."
        raise RequestError("invalid_value", message, at) from None
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
    return RealtimeSession(
        id=id,
        model=model,
        expires_at=UNSET if expires_at is None else expires_at,
        output_modalities=[settings.modality],
        instructions=settings.instructions,
        audio=Audio(
            input=_input_of(settings, info),
            output=AudioOutput(voice=settings.voice or next(iter(info.voices), UNSET)),
        ),
        tools=[
            FunctionTool(name=t.name, description=t.description, parameters=t.parameters)
            for t in settings.tools
        ],
        tool_choice=_choice_of(settings.tool_choice),
        parallel_tool_calls=settings.parallel_calls,
        max_output_tokens="inf" if settings.max_tokens is None else settings.max_tokens,
    )


def transcription_of(
    settings: SessionSettings, info: EngineInfo, *, id: str, expires_at: int | None
) -> TranscriptionSession:
    """The session object of a session that only listens, as ``settings`` say."""
    return TranscriptionSession(
        id=id,
        expires_at=UNSET if expires_at is None else expires_at,
        audio=TranscriptionAudio(input=_input_of(settings, info)),
    )


def _input_of(settings: SessionSettings, info: EngineInfo) -> AudioInput:
    hears = settings.transcribe and info.can.transcripts
    transcription = Transcription(model=info.name, language=settings.language or UNSET)
    return AudioInput(
        transcription=transcription if hears else None, turn_detection=_detection_of(settings)
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
    session: SessionObject, now: SessionSettings, info: EngineInfo, names: LocalNames
) -> SessionSettings:
    """What ``session`` asks for; ``now`` stands where it says nothing.

    Raises:
        RequestError: a name means nothing here, there is too much of something, or something is
            demanded that this kind of session or engine does not do.
    """
    heard = session.audio.input
    if isinstance(session, RealtimeSession):
        now = _speaking(session, now, info, names)
    else:
        _check_transcription(heard)
        now = replace(now, replies=False)
    settings = _with_detection(now, heard.turn_detection)
    return _with_transcription(settings, heard.transcription, names)


def _speaking(
    session: RealtimeSession, now: SessionSettings, info: EngineInfo, names: LocalNames
) -> SessionSettings:
    names.check_model(session.model, "session.model")
    voice = session.audio.output.voice
    return replace(
        now,
        instructions=instructions_of(session.instructions, "session.instructions"),
        voice=now.voice if voice is UNSET else names.voice(voice, "session.audio.output.voice"),
        modality=session.output_modalities[0],
        tools=tools_of(session.tools, "session.tools"),
        tool_choice=tool_choice_of(session.tool_choice, info, "session.tool_choice"),
        parallel_calls=session.parallel_tool_calls,
        max_tokens=max_tokens_of(session.max_output_tokens),
    )


def _check_transcription(heard: AudioInput) -> None:
    detection = heard.turn_detection
    if heard.transcription is None:
        at, why = "transcription", "a transcription session cannot be without"
    elif isinstance(detection, ServerVad) and detection.idle_timeout_ms is not None:
        at, why = "turn_detection.idle_timeout_ms", "a transcription session is never idle"
    else:
        return
    at = f"session.audio.input.{at}"
    raise RequestError("invalid_value", f"Invalid '{at}': {why}.", at)


def _with_transcription(
    settings: SessionSettings, wanted: Transcription | None, names: LocalNames
) -> SessionSettings:
    if wanted is None:
        return replace(settings, transcribe=False)
    if wanted.model is not UNSET:
        names.check_transcriber(wanted.model, "session.audio.input.transcription.model")
    at = "session.audio.input.transcription"
    languages = () if wanted.languages is UNSET else wanted.languages
    language = names.language_of(languages, f"{at}.languages")
    if wanted.language is not UNSET:
        language = wanted.language
        names.check_language(language, f"{at}.language")
    delay = "low" if wanted.delay is UNSET else wanted.delay
    return replace(settings, transcribe=True, language=language, delay=delay)


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


def effective(session: SessionObject, info: EngineInfo) -> SessionObject:
    """``session`` as it will be shown.

    An engine that cannot transcribe has transcription off, and a transcription session, where
    nobody replies, neither creates nor interrupts responses.
    """
    if isinstance(session, TranscriptionSession):
        detection = session.audio.input.turn_detection
        if detection is None:
            return session
        mute = replace(detection, create_response=False, interrupt_response=False)
        listening = replace(session.audio.input, turn_detection=mute)
        return replace(session, audio=TranscriptionAudio(input=listening))
    if info.can.transcripts:
        return session
    heard = replace(session.audio.input, transcription=None)
    return replace(session, audio=replace(session.audio, input=heard))
