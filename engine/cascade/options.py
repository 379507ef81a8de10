"""What an operator may tell the cascade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from engine.contract import EngineError
from engine.options import read

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Stage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a stage runs: embedded, unless ``url`` names an endpoint that speaks OpenAI's HTTP.

    Never printed or logged whole: it holds a key.
    """

    url: str = ""
    key: str = ""
    model: str = ""
    extra_body: dict[str, Any] = {}
    """What else an endpoint's requests hold."""
    timeout: float = 10.0
    """Seconds until an endpoint's answer must have begun, and between two pieces of it."""


class ModelStage(_Stage, frozen=True):
    """The language model; without a ``url``, ``model`` is the path of another GGUF file."""


class VoiceStage(_Stage, frozen=True):
    """The voice."""

    voice: str = ""
    """An endpoint's voice that speaks where none is asked for."""
    voices: tuple[str, ...] = ()
    """Its other voices: the endpoint is not asked."""


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cascade as the operator wants it; times in seconds or milliseconds as named."""

    llm: ModelStage = ModelStage()
    tts: VoiceStage = VoiceStage()
    listens_only: bool = False
    """It finds turns and says what was said in them; no language model, no voice."""
    capacity: int = 2
    """Callers at once: the embedded models serve one or two on two cores."""
    threads: int = 2
    """Of the recogniser."""
    minimum_silence_ms: int = 224
    """Silence before the end-of-turn model is believed."""
    history: int | None = None
    """Messages that the language model is shown; 8 of the embedded one, 40 of an endpoint."""
    ahead: float = 10.0
    """A reply runs at most this far ahead of its playout."""

    @property
    def messages(self) -> int:
        """What ``history`` comes to."""
        return self.history or (40 if self.llm.url else 8)


def options_from(given: Mapping[str, Any]) -> Options:
    """``given`` as options.

    Raises:
        EngineError: a name is unknown or a value is not what it should be.
    """
    options = read("cascade options", given, Options)
    least = {"capacity": 1, "threads": 1, "history": 2, "ahead": 1.0, "minimum_silence_ms": 0}
    for name, minimum in least.items():
        value = getattr(options, name)
        if value is not None and value < minimum:
            raise EngineError(f"cascade options: {name}: expected at least {minimum}, got {value}")
    if options.tts.url and not options.tts.voice:
        raise EngineError("cascade options: tts.voice: expected a voice of the endpoint's")
    return options
