"""The one door between the server and a speech engine.

An :class:`Engine` is shared by all callers; an :class:`EngineSession` is one caller's. What passes
the door is plain data: sample arrays, *orders* going in and *events* coming out, each a msgspec
struct, so that the same contract holds across a process border (``engine.remote``).

The rules that every engine keeps (``tests/contract`` runs them against each one, direct and across
the border):

* Audio and orders are one ordered stream: an order acts after the samples offered before it.
* A position counts input samples *offered* to :meth:`EngineSession.hear`, dropped ones included,
  from the session's first sample. Milliseconds derived from it are therefore exact on any protocol.
* Each ``Settings`` gets exactly one ``Applied`` or ``Refused``. No turn is judged before the first
  ``Settings`` was answered or half a second has passed.
* Whoever starts a turn or a reply mints its id: turns found by the engine's own detector and the
  replies of an engine that answers by itself are the engine's; commits and responds the server's.
* Every ``ReplyStarted`` is followed by exactly one ``ReplyEnded``; after that nothing names it.
  Every ended turn gets exactly one of ``TranscriptCompleted`` and ``TranscriptFailed`` where
  transcription is on; the joined deltas equal the completed text.
* The messages of ``Fault``, ``ReplyEnded``, ``TranscriptFailed`` and ``Closed`` are for operators:
  they never hold what was said.
* No event names a draft: what the engine prepares ahead of a ``Respond`` cannot be heard before it.
* A session that ended says so as its last event, ``Closed``, with its final counts; afterwards
  ``hear`` and ``order`` raise :class:`SessionEnded`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Samples: TypeAlias = npt.NDArray[np.float32]
"""Mono sound, contiguous, nominally in -1..1."""
Sound: TypeAlias = npt.NDArray[np.float32 | np.int16]
"""Samples, or the same as 16-bit integers at a full scale of 32768: as most clients send and hear
them, and as all sound crosses a process border. ``engine.audio.pcm.floats`` makes samples of it."""

State = Literal["starting", "ready", "degraded", "failed"]
Modality = Literal["audio", "text"]
Delay = Literal["minimal", "low", "medium", "high", "xhigh"]
Role = Literal["system", "user", "assistant", "tool"]
EndReason = Literal["completed", "cancelled", "length", "failed"]
CloseReason = Literal["closed", "engine_failed", "engine_lost", "too_long"]


class _Plain(Struct, frozen=True, omit_defaults=True):
    """Base of everything that is part of an order or event."""


class _Tagged(Struct, frozen=True, omit_defaults=True, tag=True):
    """Base of everything that passes the door by itself."""


# What an engine is ------------------------------------------------------------------------------


class Abilities(_Plain, frozen=True):
    """What an engine can do; whoever is on this side branches on these facts, never on a name."""

    text: bool = False
    """It accepts typed user text."""
    tools: bool = False
    """It calls tools; one that does not is given none."""
    transcripts: bool = False
    """It says what the caller said."""
    instructions: bool = False
    """Instructions and voice may change while a session runs, not only at its start."""
    drafts: bool = False
    """It prepares replies ahead of ``Respond``; it makes more than is heard."""


class EngineInfo(_Plain, frozen=True):
    """An engine's facts; rates in Hz, mono."""

    name: str
    input_rate: int
    output_rate: int
    replies: Literal["when_told", "by_itself"] = "when_told"
    tick: int | None = None
    """Input samples per tick of a clocked engine, or None."""
    real_time: bool = False
    """Replies are made as they sound, not ahead: what waits of one and need not is late."""
    voices: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    """What callers may speak to be transcribed (ISO 639-1); empty where it does not say."""
    capacity: int = 1
    """Sessions at once."""
    longest_session: float | None = None
    """Seconds after which it closes a session as ``too_long``, or None for no limit."""
    ahead: float = 10.0
    """A reply runs at most this many seconds ahead of what ``Played`` has reported."""
    can: Abilities = Abilities()


# Orders -----------------------------------------------------------------------------------------


class TurnDetection(_Plain, frozen=True):
    """How turns are found. ``silence_ms`` None leaves the pause to the engine's own judgement."""

    kind: Literal["none", "server", "semantic"] = "server"
    threshold: float = 0.5
    """Speech probability from which sound counts as speech, 0..1."""
    prefix_ms: int = 300
    silence_ms: int = 500
    """Silence that ends a turn (``server`` only)."""
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    """How soon an unfinished-sounding pause ends the turn (``semantic`` only)."""


class Settings(_Tagged, frozen=True):
    """How to listen and sound from here on."""

    id: str
    voice: str = ""
    """Empty: the engine's first."""
    instructions: str = ""
    """The role; an engine that replies by itself primes on the first it is given."""
    turns: TurnDetection | None = None
    """None: whatever holds now."""
    transcribe: bool = True
    language: str = ""
    """What the caller speaks, as a client names it (``en``, ``en-GB``); empty: not said."""
    delay: Delay = "low"
    """How much of what follows them the words of a transcript wait for, to be surer of them."""
    replies: bool = True
    """False: no reply will be asked for, so nothing need be prepared ahead of one."""
    real_time: bool = False
    """The caller's sound comes as it is spoken, as on a call: what waits of it and need not is
    late. Else it may come faster, and all of it is heard."""


class Text(_Tagged, frozen=True):
    """A piece of a message whose words are known."""

    text: str


class Turn(_Tagged, frozen=True):
    """A piece of a message that was spoken: the transcript of turn ``turn``, once it exists."""

    turn: str


Part: TypeAlias = Text | Turn


class ToolUse(_Plain, frozen=True):
    """A tool call as it stands in an assistant's message; ``arguments`` is JSON text."""

    call_id: str
    name: str
    arguments: str


class Message(_Plain, frozen=True):
    """One message of the context. ``call_id`` names the call a ``tool`` message answers."""

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolUse, ...] = ()
    call_id: str = ""


class Tool(_Plain, frozen=True):
    """A function that the model may call; ``parameters`` is a JSON schema."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class Context(_Tagged, frozen=True):
    """The conversation as the session owns it, whole, at each change."""

    revision: int
    messages: tuple[Message, ...] = ()
    instructions: str = ""
    tools: tuple[Tool, ...] = ()
    voice: str = ""


class Respond(_Tagged, frozen=True):
    """Start reply ``reply`` over context ``revision``; ``turn`` is the turn it answers, if any.

    ``messages`` replaces the context's messages for this reply alone (an out-of-band reply), the
    other fields its settings; None leaves what the context says.
    """

    reply: str
    revision: int
    turn: str | None = None
    modality: Modality = "audio"
    messages: tuple[Message, ...] | None = None
    instructions: str | None = None
    tools: tuple[Tool, ...] | None = None
    tool_choice: str = "auto"
    """``auto``, ``none``, ``required`` or a tool's name."""
    voice: str | None = None
    max_tokens: int | None = None
    verbatim: str | None = None
    """Speak exactly this text instead of asking a model (a greeting)."""


class Cancel(_Tagged, frozen=True):
    """Stop reply ``reply``; it ends as ``cancelled``. Unknown or ended replies are no error."""

    reply: str


class Played(_Tagged, frozen=True):
    """The caller has been sent ``samples`` output samples of ``reply`` so far."""

    reply: str
    samples: int


class Commit(_Tagged, frozen=True):
    """Everything heard since the last turn is turn ``turn``, ended now.

    Of a turn that the engine has ended itself in the meantime it asks nothing more.
    """

    turn: str


class Clear(_Tagged, frozen=True):
    """Forget what was heard since the last turn."""


class Close(_Tagged, frozen=True):
    """End the session."""


Order: TypeAlias = Settings | Context | Respond | Cancel | Played | Commit | Clear | Close


# Events -----------------------------------------------------------------------------------------


class Applied(_Tagged, frozen=True):
    """Settings ``id`` hold; ``effective`` is what was made of them."""

    id: str
    effective: Settings


class Refused(_Tagged, frozen=True):
    """Settings ``id`` were refused because of ``param``; the ones before still hold."""

    id: str
    param: str
    message: str


class Onset(_Tagged, frozen=True):
    """Something that may be speech began at ``at``: hold the playout. Never leaves the server."""

    at: int


class OnsetDropped(_Tagged, frozen=True):
    """It was no speech: go on where the playout was held."""


class SpeechStarted(_Tagged, frozen=True):
    """The caller speaks: turn ``turn`` began at ``at``, its prefix included."""

    turn: str
    at: int


class SpeechStopped(_Tagged, frozen=True):
    """Turn ``turn`` is over but for its judgement; ``at`` includes the silence that told."""

    turn: str
    at: int


class TurnEnded(_Tagged, frozen=True):
    """Turn ``turn`` stands, from ``start`` to ``end``; it may be answered."""

    turn: str
    start: int
    end: int


class TurnDropped(_Tagged, frozen=True):
    """Turn ``turn`` held nothing that was said."""

    turn: str


class TranscriptDelta(_Tagged, frozen=True):
    """More of what turn ``turn`` says; only a part that will not change any more."""

    turn: str
    text: str


class TranscriptCompleted(_Tagged, frozen=True):
    """What turn ``turn`` says, whole; ``seconds`` of sound were recognised."""

    turn: str
    text: str
    seconds: float


class TranscriptFailed(_Tagged, frozen=True):
    """Turn ``turn`` could not be recognised."""

    turn: str
    message: str


class ReplyStarted(_Tagged, frozen=True):
    """Reply ``reply`` begins (``turn``: the turn it answers, as far as the engine knows)."""

    reply: str
    turn: str | None = None


class ReplyAudio(_Tagged, frozen=True):
    """The next samples of ``reply``, at the output rate."""

    reply: str
    pcm: Sound


class ReplyText(_Tagged, frozen=True):
    """The next words of ``reply`` and the output samples ``start``..``end`` that speak them.

    Joined texts are the reply's transcript. A text reply has ``start == end == 0``.
    """

    reply: str
    text: str
    start: int = 0
    end: int = 0


class ToolCall(_Tagged, frozen=True):
    """``reply`` calls a tool; ``arguments`` is JSON text, complete."""

    reply: str
    call_id: str
    name: str
    arguments: str


class Usage(_Plain, frozen=True):
    """Tokens a reply took."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class ReplyEnded(_Tagged, frozen=True):
    """Nothing more of ``reply`` follows. ``timings`` are seconds per stage, by the stage's name."""

    reply: str
    reason: EndReason
    message: str = ""
    usage: Usage = Usage()
    timings: dict[str, float] = {}


class Fault(_Tagged, frozen=True):
    """Something failed inside the engine; ``Closed`` follows where the session cannot go on."""

    code: str
    message: str


class Closed(_Tagged, frozen=True):
    """The session's last event. Counts are input samples: offered, and of these dropped."""

    reason: CloseReason
    heard: int
    dropped: int
    message: str = ""


Event: TypeAlias = (
    Applied
    | Refused
    | Onset
    | OnsetDropped
    | SpeechStarted
    | SpeechStopped
    | TurnEnded
    | TurnDropped
    | TranscriptDelta
    | TranscriptCompleted
    | TranscriptFailed
    | ReplyStarted
    | ReplyAudio
    | ReplyText
    | ToolCall
    | ReplyEnded
    | Fault
    | Closed
)


# The door ---------------------------------------------------------------------------------------


class EngineError(Exception):
    """An engine cannot do what was asked of it."""


class EngineBusy(EngineError):
    """No place is free; ``retry_after`` seconds is the engine's guess of when to ask again."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"every place is taken; try again in {retry_after:g} s")
        self.retry_after = retry_after


class EngineUnavailable(EngineError):
    """The engine is not ready: starting, failed or stopped."""


class SessionEnded(EngineError):
    """The session is over; ``closed`` is its last event."""

    def __init__(self, closed: Closed) -> None:
        super().__init__(f"the session ended: {closed.reason}")
        self.closed = closed


class EngineSession(Protocol):
    """One caller's stay in an engine."""

    @property
    def room(self) -> int:
        """Input samples that can be offered now without any being dropped."""

    def hear(self, pcm: Sound) -> int:
        """Offers sound at the input rate, any number; returns the room that is left.

        Never blocks. Samples beyond the room push out the oldest unheard ones, which are counted.

        Raises:
            SessionEnded: the session is over.
        """

    def order(self, order: Order) -> None:
        """Gives an order, to act after everything offered before it.

        Raises:
            SessionEnded: the session is over.
        """

    def listen(self, told: Callable[[Event], None]) -> None:
        """Has every event told, in order, up to and including ``Closed``; also what came before.

        One listener only, which must not raise. It is called by the event loop, never from within
        ``hear``, ``order`` or ``listen``. ``engine.reading`` waits for one event after the other.
        """


class Engine(Protocol):
    """A speech engine, shared by all callers."""

    @property
    def info(self) -> EngineInfo:
        """Its facts; whole once ``start`` has returned."""

    @property
    def state(self) -> State:
        """Whether it can take callers."""

    async def start(self) -> None:
        """Loads and warms up; returns when the first caller would be served at full speed.

        Raises:
            EngineError: it cannot be had; the message says what to do.
        """

    async def open(self) -> EngineSession:
        """Takes a place for one caller.

        Raises:
            EngineBusy: every place is taken.
            EngineUnavailable: it is not ready.
        """

    def figures(self) -> Mapping[str, float]:
        """Counters and gauges by name, for metrics; cheap, no older than about a second."""

    async def stop(self) -> None:
        """Closes every session and frees what it holds; safe to call twice."""
