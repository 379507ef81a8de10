"""What a simulated engine is told to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from engine.contract import Abilities, EngineError, EngineInfo
from engine.options import read
from engine.simulated.faults import FaultToOrder


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
    """Input samples per tick of a clocked echo, which runs on the loop of ``engine.duplex``."""
    tick_cost: tuple[float, float] = (0.0, 0.0)
    """Seconds that its device takes for a tick: whatever runs, and for each session more."""
    script: tuple[Line, ...] = (Line(text="This is a simulated reply."),)
    """The replies in order, over and over."""
    transcripts: tuple[str | None, ...] = ()
    """What the turns say, in order: "" is a turn of noise, None one that cannot be recognised."""
    threshold: float = 0.02
    """The peak (clocked: the root mean square) from which sound is speech; 0: everything is."""
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
            real_time=not self.detects,
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
    parsed = read("simulated", options, Options)
    if parsed.tick is not None:
        if parsed.replies != "by_itself" or parsed.mode != "echo":
            raise EngineError(
                'simulated: tick: expected none without "replies": "by_itself" and "mode": "echo"'
            )
        if parsed.tick < 1 or parsed.tick * parsed.output_rate % parsed.input_rate:
            raise EngineError(
                "simulated: tick: expected input samples that make a whole number of output"
                f" samples, got {parsed.tick}"
            )
    return parsed
