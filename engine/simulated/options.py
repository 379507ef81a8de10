"""What a simulated engine is told to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from engine.contract import Abilities, EngineError, EngineInfo


class FaultToOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault and when it strikes: ``after`` seconds heard, or when turn number ``turn`` ended.

    ``slow``: replies take ``seconds`` longer to begin (a clocked engine: one tick takes them).
    ``stall``: the engine does nothing any more. ``crash``: the engine's process exits; where the
    engine has no process of its own, the session fails. ``nan``: the next sound is not a number.
    """

    kind: Literal["slow", "stall", "crash", "nan"]
    after: float | None = None
    turn: int | None = None
    seconds: float = 1.0


class Call(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call of a scripted reply."""

    name: str
    arguments: dict[str, Any] = {}


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scripted reply."""

    text: str = ""
    calls: tuple[Call, ...] = ()


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A simulated engine; times in seconds or milliseconds as named, rates in Hz."""

    replies: Literal["when_told", "by_itself"] = "when_told"
    mode: Literal["echo", "scripted"] = "echo"
    """``echo``: a reply sounds like its turn; by itself, each piece heard comes back at once."""
    tick: int | None = None
    """Input samples per tick of a clocked echo."""
    script: tuple[Line, ...] = (Line(text="This is a simulated reply."),)
    """The replies in order, over and over."""
    transcripts: tuple[str | None, ...] = ()
    """What the turns say, in order: "" is a turn of noise, None one that cannot be recognised."""
    threshold: float = 0.02
    """The peak from which sound counts as speech; 0: everything does."""
    silence_ms: int = 300
    """Silence that ends a turn, where the settings do not say."""
    input_rate: int = 16000
    output_rate: int = 24000
    voices: tuple[str, ...] = ("low", "high")
    languages: tuple[str, ...] = ()
    capacity: int = 1000
    longest_session: float | None = None
    ahead: float = 10.0
    room: float = 2.0
    """Seconds of sound that wait to be heard."""
    faults: tuple[FaultToOrder, ...] = ()

    def info(self) -> EngineInfo:
        """The facts that follow."""
        told = self.replies == "when_told"
        return EngineInfo(
            name="simulated",
            input_rate=self.input_rate,
            output_rate=self.output_rate,
            replies=self.replies,
            tick=self.tick,
            voices=self.voices,
            models=("simulated",),
            languages=self.languages,
            capacity=self.capacity,
            longest_session=self.longest_session,
            ahead=self.ahead,
            can=Abilities(
                text=told,
                tools=told,
                transcripts=self.detects,
                instructions=told,
                silent_context=not told,
                drafts=told,
            ),
        )

    @property
    def detects(self) -> bool:
        """Whether it finds turns; an echo by itself has none."""
        return self.replies == "when_told" or self.mode == "scripted"


def parse(options: Mapping[str, Any]) -> Options:
    """Reads options as they come from a file or a command line.

    Raises:
        EngineError: an option is unknown or does not fit; the message names it.
    """
    try:
        parsed = msgspec.convert(options, Options)
    except msgspec.ValidationError as error:
        raise EngineError(f"simulated: {error}") from None
    if parsed.tick is not None:
        if parsed.replies != "by_itself" or parsed.mode != "echo":
            raise EngineError("simulated: tick: expected none, unless an echo replies by itself")
        if parsed.tick < 1 or parsed.tick * parsed.output_rate % parsed.input_rate:
            raise EngineError(
                "simulated: tick: expected input samples that make a whole number of output"
                f" samples, got {parsed.tick}"
            )
    return parsed
