"""The two session objects, ``realtime`` and ``transcription``: what the wire shows, what an update
makes of it.

An update is sparse. Absent keeps, objects merge at every depth, lists and values replace; null
turns off what can be off (turn detection, transcription, noise reduction...) and elsewhere means
the default. Fields that only the server writes may be sent back and are ignored, unknown ones too,
so a client can return what it was given. What this server cannot do is refused by the field's name.

Taken and shown as given, without effect here: ``noise_reduction``, ``truncation``, ``tracing``,
``reasoning``, the recogniser's prompts and keywords, and ``tools`` where the engine calls none
(demanding a call of it is refused).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from engine.contract import Delay
from server.protocol import bounds
from server.protocol.sound import Coding
from server.protocol.wire import convert
from server.requests import RequestError

Milliseconds = Annotated[int, Meta(ge=0, le=60_000)]
Language = Annotated[str, Meta(max_length=16)]
Name = Annotated[str, Meta(min_length=1, max_length=128)]


class Pcm(Struct, frozen=True, tag="audio/pcm"):
    """16-bit little-endian mono; the API knows no other rate."""

    rate: Literal[24000] = 24000

    @property
    def coding(self) -> Coding:
        return Coding("pcm", self.rate)


class Pcmu(Struct, frozen=True, tag="audio/pcmu"):
    """G.711 mu-law, 8 kHz."""

    @property
    def coding(self) -> Coding:
        return Coding("pcmu", 8000)


class Pcma(Struct, frozen=True, tag="audio/pcma"):
    """G.711 A-law, 8 kHz."""

    @property
    def coding(self) -> Coding:
        return Coding("pcma", 8000)


Format: TypeAlias = Pcm | Pcmu | Pcma


class NoiseReduction(Struct, frozen=True):
    type: Literal["near_field", "far_field"]
    strength: float | UnsetType = UNSET


class Transcription(Struct, frozen=True):
    """Only what the client said is written: some clients fail on any key more."""

    model: Name | UnsetType = UNSET
    language: Language | UnsetType = UNSET
    languages: list[Language] | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    keywords: list[str] | UnsetType = UNSET
    delay: Delay | UnsetType = UNSET


class ServerVad(Struct, frozen=True, kw_only=True, tag="server_vad"):
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.5
    prefix_padding_ms: Milliseconds = 300
    silence_duration_ms: Milliseconds = 500
    idle_timeout_ms: Annotated[int, Meta(ge=1000, le=60_000)] | None = None
    create_response: bool = True
    interrupt_response: bool = True


class SemanticVad(Struct, frozen=True, kw_only=True, tag="semantic_vad"):
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    create_response: bool = True
    interrupt_response: bool = True


class AudioInput(Struct, frozen=True, kw_only=True):
    format: Format = Pcm()
    noise_reduction: NoiseReduction | None = None
    transcription: Transcription | None = None
    turn_detection: ServerVad | SemanticVad | None = ServerVad()


class AudioOutput(Struct, frozen=True, kw_only=True):
    format: Format = Pcm()
    voice: Name | UnsetType = UNSET
    speed: Annotated[float, Meta(ge=1, le=1)] = 1.0


class Audio(Struct, frozen=True, kw_only=True):
    input: AudioInput = AudioInput()
    output: AudioOutput = AudioOutput()


class FunctionTool(Struct, frozen=True, kw_only=True):
    type: Literal["function"] = "function"
    name: Name
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)


class FunctionChoice(Struct, frozen=True, tag="function"):
    name: Name


Tools = Annotated[list[FunctionTool], Meta(max_length=128)]
ToolChoice: TypeAlias = Literal["auto", "none", "required"] | FunctionChoice
MaxTokens: TypeAlias = Annotated[int, Meta(ge=1, le=4096)] | Literal["inf"]
Modalities = Annotated[list[Literal["audio", "text"]], Meta(min_length=1, max_length=1)]


class RealtimeSession(Struct, frozen=True, kw_only=True, tag="realtime"):
    """The effective session, whole. ``prompt`` and ``include`` are not served and always null."""

    object: Literal["realtime.session"] = "realtime.session"
    id: str
    expires_at: int | UnsetType = UNSET
    model: Name
    output_modalities: Modalities = field(default_factory=lambda: ["audio"])
    instructions: str = ""
    audio: Audio = Audio()
    tools: Tools = field(default_factory=list)
    tool_choice: ToolChoice = "auto"
    max_output_tokens: MaxTokens = "inf"
    truncation: str | dict[str, Any] = "auto"
    tracing: str | dict[str, Any] | None = None
    prompt: None = None
    include: None = None
    reasoning: dict[str, Any] | UnsetType = UNSET
    parallel_tool_calls: bool = True


class TranscriptionAudio(Struct, frozen=True, kw_only=True):
    input: AudioInput = AudioInput()


class TranscriptionSession(Struct, frozen=True, kw_only=True, tag="transcription"):
    """The same of a session that only listens: it has no model, no voice and no tools."""

    object: Literal["realtime.transcription_session"] = "realtime.transcription_session"
    id: str
    expires_at: int | UnsetType = UNSET
    audio: TranscriptionAudio = TranscriptionAudio()
    include: None = None


SessionObject: TypeAlias = RealtimeSession | TranscriptionSession

_READ_ONLY = {"object", "id", "expires_at", "client_secret"}
_OBJECTS = {"audio", "input", "output", "format"}
"""Objects that are always there: null cannot turn them off and says nothing."""


def merge(current: SessionObject, update: Mapping[str, Any]) -> SessionObject:
    """The session after ``update``, the ``session`` field of a ``session.update``.

    Raises:
        RequestError: the update does not fit, is for a session of another type, or makes the
            session too large; ``param`` names the field, and nothing changes.
    """
    if "type" not in update:
        raise RequestError(
            "missing_required_parameter",
            "Missing required parameter: 'session.type'.",
            "session.type",
        )
    kind = current.__struct_config__.tag
    if update["type"] != kind:
        raise RequestError(
            "invalid_value",
            f"Invalid 'session.type': expected '{kind}', which a session stays, "
            f"got {update['type']!r}.",
            "session.type",
        )
    given = {key: value for key, value in update.items() if key not in _READ_ONLY}
    merged = _merged(msgspec.to_builtins(current), given)
    if isinstance(current, RealtimeSession):
        merged.setdefault("model", current.model)
    session: SessionObject = convert(_with_plain_voice(merged), type(current), "session")
    if isinstance(session, RealtimeSession) and isinstance(current, RealtimeSession):
        session = _with_voice(session, current.audio.output.voice)
    bounds.check_json(session, bounds.SESSION, "session")
    return session


def _with_voice(session: RealtimeSession, before: str | UnsetType) -> RealtimeSession:
    """A voice cannot be taken away, only changed."""
    if session.audio.output.voice is not UNSET:
        return session
    output = msgspec.structs.replace(session.audio.output, voice=before)
    audio = msgspec.structs.replace(session.audio, output=output)
    return msgspec.structs.replace(session, audio=audio)


def _merged(base: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in update.items():
        if isinstance(value, dict):
            old = base.get(key)
            result[key] = _merged(old if isinstance(old, dict) else {}, value)
        elif value is not None or key == "turn_detection":
            result[key] = value
        elif key not in _OBJECTS:
            result.pop(key, None)
    return result


def _with_plain_voice(session: dict[str, Any]) -> dict[str, Any]:
    """Requests may give a voice as ``{"id": ...}``; clients cannot read it back in that form."""
    match session:
        case {"audio": {"output": {"voice": {"id": voice}}}}:
            audio = session["audio"]
            return session | {"audio": audio | {"output": audio["output"] | {"voice": voice}}}
    return session
