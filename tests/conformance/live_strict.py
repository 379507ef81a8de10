"""The strictest client of GPT-Live: every event as the ``openai`` package types it, in order.

Each event must pass the package's own model, strictly: nothing that it does not declare, and null
nowhere. Beyond that stand the protocol's promises: what comes first and last, that whatever was
asked is answered once and by name, and one timeline on which everything has its place. What takes
time is judged by the client's own clock, which begins before the server's can: sound never comes
before it is due, and :data:`SLACK` says how far it may be behind on a busy machine.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from openai.types.live import ConnectServerEvent, ServerEvent
from pydantic import BaseModel, TypeAdapter

Place: TypeAlias = Literal["socket", "channel", "sideband"]
"""The client's socket, the data channel of its call, or a socket that watches its session."""

SLACK = 1.0
"""Seconds that the sound may be behind a client's clock: frames that were lost, and the way."""
USAGE = 5
"""Seconds between reports of usage."""
_FRAME = 0.1
"""Seconds of sound that may be there as soon as the clock begins."""
_REFLECTED = {"type": "audio/pcm", "rate": 24_000}
MS = 48
"""Bytes of a millisecond of it."""

_schemas: dict[Place, TypeAdapter[Any]] = {
    "socket": TypeAdapter(ServerEvent),
    "channel": TypeAdapter(ConnectServerEvent),
    "sideband": TypeAdapter(ConnectServerEvent),
}
_NAMELESS = {
    "socket": (),
    "channel": (),
    "sideband": ("session.input_audio.append",),
}
"""Events without an ``event_id``."""
_SOUND = "session.output_audio.delta"
_ANSWERS = {
    "session.start": "session.started",
    "session.update": "session.updated",
    "session.close": "session.closed",
    "session.input_audio.mute": "session.input_audio.muted",
    "session.input_audio.unmute": "session.input_audio.unmuted",
    "session.instructions.append": "session.instructions.appended",
    "session.thinking.append": "session.thinking.appended",
    "session.commentary.append": "session.commentary.appended",
}


@dataclass
class StrictLive:
    """Sees a session's events; an :class:`AssertionError` or a validation error is a verdict.

    Attributes:
        events: what came, but for sound.
        sound: what the session said, as bytes of its format; where a sideband was not shown all,
            with silence in the place of what is missing.
        reflected: what a sideband was shown of the caller's sound.
        first: where on the timeline a sideband's sound begins, in milliseconds.
        missed: milliseconds that it was not shown.
        clock: the client's, in seconds.
        keeps_time: whether a second of the session takes a second; a test may slow its engine.
    """

    place: Place = "socket"
    events: list[dict[str, Any]] = field(default_factory=list)
    sound: bytearray = field(default_factory=bytearray)
    reflected: bytearray = field(default_factory=bytearray)
    first: int = 0
    missed: int = 0
    clock: Callable[[], float] = time.monotonic
    keeps_time: bool = True

    def __post_init__(self) -> None:
        self._began = self._started = self.clock()
        self._ids: set[str] = set()
        self._asked: dict[str, str] = {}
        self._answered: set[str] = set()
        self._delegations: set[str] = set()
        self._reached: dict[str, tuple[int, int]] = {}
        self._offered = 0.0
        self._usage = 0
        self._session: dict[str, Any] = {}
        self._closed = self._first = False

    # What the client does -----------------------------------------------------------------------

    def asks(self, event: Mapping[str, Any]) -> None:
        """The client sends ``event`` now."""
        if event.get("type") == "session.start" and not self._first:
            self._began = self.clock()
        event_id = event.get("event_id")
        if isinstance(event_id, str):
            assert event_id not in self._asked, "a test gives an id twice"
            self._asked[event_id] = str(event.get("type"))

    def speaks(self, seconds: float) -> None:
        """The client sends so much sound now."""
        self._offered += seconds

    # What it sees -------------------------------------------------------------------------------

    def see(self, text: str) -> dict[str, Any]:
        """Takes the next event off the wire."""
        assert not self._closed, "an event behind session.closed"
        model = _schemas[self.place].validate_json(text, strict=True)
        event: dict[str, Any] = json.loads(text)
        kind = event["type"]
        assert list(_undeclared(model)) in ([], ["event_id"] if kind == _SOUND else [])
        assert None not in _values(event), f"null in {kind}"
        self._name(event)
        self._order(kind)
        if kind not in (_SOUND, "session.input_audio.append"):
            self.events.append(event)
        self._follow(event)
        return event

    def finish(self) -> None:
        """The session has ended as it should, and everything was answered."""
        assert self._closed
        owed = {name for name, kind in self._asked.items() if not kind.endswith("audio.append")}
        assert owed <= self._answered, f"not answered: {owed - self._answered}"

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def format(self) -> dict[str, Any]:
        """That of ``sound``."""
        if self.place == "sideband":
            return _REFLECTED
        return dict(self._session["audio"]["format"])

    @property
    def seconds(self) -> float:
        """How much sound came in events."""
        return len(self.sound) / bytes_per_second(self.format) if self.sound else 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since before the session can have begun."""
        return self.clock() - self._began

    def said(self, direction: Literal["input", "output"]) -> str:
        """All the words of one direction."""
        return "".join(event["delta"] for event in self.words(direction))

    def words(self, direction: Literal["input", "output"]) -> list[dict[str, Any]]:
        """The transcript of one direction, piece by piece."""
        kind = f"session.{direction}_transcript.delta"
        return [event for event in self.events if event["type"] == kind]

    @property
    def errors(self) -> list[dict[str, Any]]:
        """What it was told went wrong."""
        return [event["error"] for event in self.events if event["type"] == "error"]

    # What must be so ----------------------------------------------------------------------------

    def _name(self, event: dict[str, Any]) -> None:
        """No event comes twice, and what answers the client's names what it answers."""
        kind = event["type"]
        if kind in _NAMELESS[self.place]:
            assert "event_id" not in event
        else:
            assert event["event_id"] not in self._ids
            self._ids.add(event["event_id"])
        answered = event.get("client_event_id")
        if kind == "error":
            error = event["error"]
            assert error["type"] in ("invalid_request_error", "server_error")
            assert error["code"] and error["message"]
            assert error.get("client_event_id") == answered
        if answered is None or (kind == "session.closed" and answered not in self._asked):
            return
        assert answered not in self._answered, f"{answered} was answered twice"
        assert kind in ("error", _ANSWERS.get(self._asked[answered]))
        self._answered.add(answered)

    def _order(self, kind: str) -> None:
        """The session's start comes first, its end last, and each of them once."""
        if self.place == "sideband":
            assert kind != "session.started"
        elif kind != "error" or self._first:
            assert (kind == "session.started") != self._first, f"{kind} out of order"
            self._first = True
        self._closed = kind == "session.closed"

    def _follow(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if "session" in event:
            self._show(event["session"], started=kind == "session.started")
        if kind == _SOUND:
            self._hear(event)
        elif "start_ms" in event:
            self._place(kind, event["start_ms"], event["end_ms"])
        elif kind == "session.input_audio.append":
            self.reflected += base64.b64decode(event["audio"], validate=True)
        elif kind == "session.delegation.created":
            assert event["delegation"]["target"] == "client"
            assert event["delegation"]["id"] not in self._delegations
            self._delegations.add(event["delegation"]["id"])
            assert 0 <= event["offset_ms"] <= self._now()
        if "usage" in event:
            self._count(event["usage"]["seconds"], last=kind == "session.closed")
        if event.get("reason") in ("close_requested", "expired") and self.place == "socket":
            late = self.clock() - self._started - self.seconds
            assert late <= SLACK or not self.keeps_time, f"{late} s of sound are missing"

    def _show(self, session: dict[str, Any], *, started: bool) -> None:
        """A session stays as it was shown first, but for its delegation."""
        if started:
            self._started = self.clock()
            assert session["expires_at"] > time.time() - 1
            assert ("format" in session["audio"]) == (self.place == "socket")
        same = session | {"delegation": None}
        assert not self._session or same == self._session | {"delegation": None}
        self._session = session

    def _hear(self, event: dict[str, Any]) -> None:
        """Sound is one stream: never early, and of a sideband without holes that are not told."""
        assert self.place != "channel"
        sound = base64.b64decode(event["delta"], validate=True)
        assert len(sound) % (2 if self.format["type"] == "audio/pcm" else 1) == 0
        if self.place == "socket":
            assert not {"start_ms", "end_ms"} & event.keys()
            self.sound += sound
            assert self.seconds <= self.elapsed + _FRAME, "sound came before it was due"
            return
        start, end = event["start_ms"], event["end_ms"]
        before = self._reached.get(_SOUND, (start, start))[1]
        assert start >= before
        self._place(_SOUND, start, end)
        self.first = start if not self.sound else self.first
        self.missed += start - before
        self.sound += bytes(MS * (start - before)) + sound
        assert abs(1000 * self.seconds - (end - self.first)) <= 1000 * _FRAME

    def _place(self, kind: str, start: int, end: int) -> None:
        """Places are in order, within what has been."""
        assert 0 <= start <= end
        before = self._reached.get(kind, (0, 0))
        assert before <= (start, end) and before[1] <= end, f"{kind}: {before}, then {start, end}"
        self._reached[kind] = start, end
        if kind == "session.input_transcript.delta" and self.place == "socket":
            assert end <= self._now() + 1000 * self._offered
        else:
            spoken = kind == "session.output_transcript.delta"
            assert (start if spoken else end) <= self._now()

    def _now(self) -> float:
        """Milliseconds that the session can have come to; a sideband came later than it."""
        late = 1000 * self.elapsed + 1000 * _FRAME
        return float("inf") if self.place == "sideband" else late

    def _count(self, seconds: float, *, last: bool) -> None:
        """Usage is told every few seconds, in all, and agrees with what was heard."""
        assert seconds == int(seconds) >= self._usage
        assert seconds <= self.elapsed + _FRAME or self.place == "sideband"
        step = int(seconds) - self._usage
        assert step < USAGE + SLACK if last else step >= USAGE
        self._usage = int(seconds)
        if self.place == "socket":
            assert seconds - SLACK <= self.seconds <= seconds + 1


def bytes_per_second(format_: Mapping[str, Any]) -> int:
    """Of sound in a session's format."""
    return int(format_["rate"]) * (2 if format_["type"] == "audio/pcm" else 1)


def _undeclared(model: BaseModel) -> Iterator[str]:
    """The fields of ``model``, and of what it holds, that the package does not know."""
    yield from model.model_extra or ()
    for name in model.model_fields_set & type(model).model_fields.keys():
        value = getattr(model, name)
        for inner in value if isinstance(value, list) else (value,):
            if isinstance(inner, BaseModel):
                yield from _undeclared(inner)


def _values(value: Any) -> Iterator[Any]:
    """Every plain value in it."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _values(inner)
    else:
        yield value
