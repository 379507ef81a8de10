"""Whatever is sent to a Live session and happens in it, its events are valid and in order.

Session, playout, audience and adapter are the real ones; the engine does what the test says, and
time is the test's own. A client and a sideband send what comes to their minds.
"""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types.live import ConnectServerEvent, ServerEvent
from pydantic import TypeAdapter

from engine import contract
from engine.contract import EngineInfo
from server.audience import Audience
from server.happenings import Happening
from server.missed import Missed
from server.playout import SECOND, Paced
from server.protocol.adapter import Place, Terms
from server.protocol.live.adapter import USAGE
from server.protocol.live.client_events import UNSUPPORTED
from server.protocol.live.config import config_of
from server.protocol.live.delegation import DELEGATE
from server.protocol.live.events import CloseReason
from server.protocol.live.opening import wanted
from server.protocol.wire import Raw
from server.requests import SessionSettings
from server.session import Session
from tests.unit.test_live_config import NAMES, check_known
from tests.unit.test_session import INFO, RATE, Engine

ENGINES = {"told": INFO, "clocked": replace(INFO, replies="by_itself", tick=1_280)}
TICK = 1_920
"""Output samples of the clocked engine's tick."""
SOUND = "session.output_audio.delta"
REFLECTED = "session.input_audio.append"

_socket: TypeAdapter[Any] = TypeAdapter(ServerEvent)
_connected: TypeAdapter[Any] = TypeAdapter(ConnectServerEvent)


class Hearer:
    """One who is sent a session's events, and checks each."""

    def __init__(self, place: Place, *, leg: bool) -> None:
        self.place = place
        self.leg = leg
        self.events: list[dict[str, Any]] = []

    def send(self, text: bytes) -> None:
        """Takes an event: the package knows it to the last field, and nothing follows the end."""
        assert "session.closed" not in self.types, "an event behind the last"
        event: dict[str, Any] = json.loads(text)
        schema = _socket if self.place == "client" and not self.leg else _connected
        known = {name: value for name, value in event.items() if name != "event_id"}
        plain = known if event["type"] == SOUND else event
        check_known(schema.validate_python(plain, strict=True))
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of that type."""
        return [event for event in self.events if event["type"] == kind]


class Bench:
    """A Live session, with a client, a sideband, and an engine that is in the test's hands."""

    def __init__(self, info: EngineInfo = INFO, *, leg: bool = False, **config: Any) -> None:
        terms = Terms(info=info, names=NAMES, settings=SessionSettings(), expires_at=7, leg=leg)
        asked = config_of({"model": "gpt-live-1"} | config, leg=leg)
        opening = wanted(asked)("live_1", terms)
        self.engine = Engine()
        self.playout = opening.playout()
        self.session = Session(
            "live_1", self.engine, info, self.playout, self._tell, opening.settings, live=True
        )
        self.adapter = opening.adapter(self.session)
        self.audience = Audience(self.adapter, Missed(sound=False))
        self.client, self.sideband = Hearer("client", leg=leg), Hearer("sideband", leg=leg)
        self.audience.join(self.client, "client")
        self.audience.join(self.sideband, "sideband")
        self.now = 0
        self.begun = 0
        self.made: dict[str, int] = {}

    def _tell(self, happening: Happening) -> None:
        self.audience.tell(self.adapter.render(happening))

    def send(self, raw: Raw | dict[str, Any], place: Place = "client") -> list[dict[str, Any]]:
        """Sends an event; returns the answers, which go to its sender alone."""
        hearer = self.client if place == "client" else self.sideband
        while not self.adapter.input.pump():
            pass
        text = json.dumps(raw) if isinstance(raw, dict) else raw
        answers = list(self.adapter.receive(text, place))
        before = len(hearer.events)
        self.audience.tell(answers, [hearer])
        return hearer.events[before:]

    def event(self, *events: contract.Event) -> None:
        """The engine tells something."""
        for event in events:
            self.session.tick(self.now)
            self.session.on_event(event)

    def pass_time(self, seconds: float) -> None:
        """What is due leaves; a clocked engine says its silence."""
        end = self.now + round(seconds * SECOND)
        while self.now < end and not self.session.ended:
            if isinstance(self.playout, Paced):
                self.playout.wake(self.now)
                if (taken := self.playout.take(self.now)) is not None:
                    self.session.on_taken(taken)
                self.now += 20_000_000
            else:
                self.event(contract.ReplyAudio("", np.zeros(TICK, np.float32)))
                self.now += 80_000_000
            self.session.tick(self.now)

    @property
    def reply(self) -> str | None:
        """The newest reply that was asked for, or that the engine began by itself."""
        told = [o.reply for o in self.engine.orders if isinstance(o, contract.Respond)]
        if self.session.info.replies == "by_itself":
            return f"r{self.begun}" if self.begun else None
        return told[-1] if told else None


def test_a_session_begins_with_its_whole_configuration_and_ends_with_it() -> None:
    bench = Bench(instructions="Be kind.")
    bench.pass_time(1.5)
    bench.send({"type": "session.close", "event_id": "mine"})
    started, closed = bench.client.events[0], bench.client.events[-1]
    assert (started["type"], closed["type"]) == ("session.started", "session.closed")
    assert started["session"] == closed["session"]
    assert started["session"]["instructions"] == "Be kind."
    assert (closed["reason"], closed["client_event_id"]) == ("close_requested", "mine")
    assert closed["usage"] == {"seconds": 1}
    assert bench.sideband.types[-1] == "session.closed"


@pytest.mark.parametrize(
    ("reason", "told", "error"),
    [
        ("hangup", "remote_hangup", None),
        ("session_expired", "expired", None),
        ("too_long", "expired", None),
        ("idle_timeout", "expired", "idle_timeout"),
        ("drain", "connection_lost", "server_draining"),
        ("server_stopped", "connection_lost", "server_draining"),
        ("internal_error", "connection_lost", "internal_error"),
        ("peer_lost", "connection_lost", None),
    ],
)
def test_every_end_has_a_reason_that_clients_know(
    reason: str, told: str, error: str | None
) -> None:
    bench = Bench()
    bench.session.close(reason)
    assert bench.client.events[-1]["reason"] == told
    assert [event["error"]["code"] for event in bench.client.of("error")] == [error] * bool(error)
    assert {told} <= set(get_args(CloseReason))


def test_a_fault_of_ours_and_a_reply_that_fails_are_server_errors() -> None:
    bench = Bench()
    bench.session.say("Hello.")
    bench.event(contract.ReplyEnded(bench.reply or "", "failed", "no model"))
    bench.event(contract.Fault("recogniser_lost", "it is gone"))
    told = [event["error"] for event in bench.client.of("error")]
    assert [error["type"] for error in told] == ["server_error"] * 2
    assert told[1]["code"] == "recogniser_lost"


def test_usage_is_told_every_few_seconds_and_in_all() -> None:
    bench = Bench()
    bench.pass_time(4 * USAGE - 0.5)
    told = [event["usage"]["seconds"] for event in bench.client.of("session.usage.updated")]
    assert told == [USAGE, 2 * USAGE, 3 * USAGE]


def test_a_task_is_handed_to_the_client_and_what_comes_of_it_is_said() -> None:
    bench = Bench()
    bench.session.say("Let me see.")
    bench.event(contract.ToolCall(bench.reply or "", "c1", DELEGATE.name, '{"task":"look"}'))
    (told,) = bench.client.of("session.delegation.created")
    assert told["delegation"]["target"] == "client"
    bench.event(contract.ReplyEnded(bench.reply or "", "completed"))
    found = {"content": "It is sunny.", "delegation_id": told["delegation"]["id"]}
    (answer,) = bench.send({"type": "session.commentary.append", **found})
    assert answer["type"] == "session.commentary.appended"
    respond = next(o for o in reversed(bench.engine.orders) if isinstance(o, contract.Respond))
    assert respond.verbatim == "It is sunny."


def test_words_are_told_with_the_sound_that_speaks_them() -> None:
    bench = Bench()
    bench.session.say("One two.")
    speak(bench)
    bench.pass_time(1)
    first, second = bench.client.of("session.output_transcript.delta")
    assert (first["delta"], second["delta"]) == ("one ", "two ")
    assert second["start_ms"] - first["start_ms"] == 100
    at = bench.client.events.index(second)
    sound = [e for e in bench.client.events[: at + 1] if e["type"] == SOUND]
    heard = 1000 * sum(map(samples, sound)) // RATE
    assert heard - 40 <= second["start_ms"] <= heard


def test_a_sideband_is_shown_both_sides_and_where_they_stand() -> None:
    bench = Bench()
    audio = base64.b64encode(np.full(4_800, 9_000, "<i2").tobytes()).decode()
    bench.send({"type": REFLECTED, "audio": audio})
    bench.pass_time(0.2)
    (heard,) = bench.sideband.of(REFLECTED)
    assert len(base64.b64decode(heard["audio"])) == pytest.approx(2 * 4_800, abs=64)
    places = [(event["start_ms"], event["end_ms"]) for event in bench.sideband.of(SOUND)]
    assert places == [(40 * n, 40 * (n + 1)) for n in range(5)]
    assert not bench.client.of(REFLECTED)


def test_a_calls_channel_carries_no_sound_and_what_it_may() -> None:
    allowed = {
        "allowed_client_events": ["session.close"],
        "allowed_server_events": [{"type": "error"}, {"type": "session.closed"}],
    }
    bench = Bench(leg=True, client={"data_channel": allowed})
    (refused,) = bench.send({"type": "session.input_audio.mute", "event_id": "mine"})
    assert (refused["error"]["code"], refused["client_event_id"]) == ("permission_denied", "mine")
    bench.pass_time(2 * USAGE)
    bench.send({"type": "session.close"})
    assert bench.client.types[1:] == ["error", "session.closed"]


@pytest.mark.parametrize("kind", sorted(UNSUPPORTED))
def test_what_is_not_done_here_is_refused_by_its_name(kind: str) -> None:
    (answer,) = Bench().send({"type": kind, "event_id": "mine"})
    error = answer["error"]
    assert (error["code"], error["param"], error["client_event_id"]) == (
        "unsupported",
        "type",
        "mine",
    )
    assert kind in error["message"]


@pytest.mark.parametrize("kind", [None, 7, [], {}, "nonsense", ""])
@pytest.mark.parametrize("place", get_args(Place))
def test_what_is_no_event_of_the_api_is_refused_by_its_type(kind: Any, place: Place) -> None:
    (answer,) = Bench().send({"type": kind, "event_id": "mine"}, place)
    error = answer["error"]
    assert (error["code"], error["param"]) == ("invalid_event", "type")
    assert answer["client_event_id"] == "mine"


words = st.sampled_from(["", "hi", "x" * 4_001, "é\x00", None, 7])
ids = st.none() | st.sampled_from(["dlg_none", "", 7])
sounds = st.sampled_from(["", "AAAA", "AAAAAAAA", "AAA", "?", None, "A" * 8_000])
updates: st.SearchStrategy[Any] = st.sampled_from(
    [
        {},
        {"delegation": {"type": "client", "acknowledgement_delay_ms": 300}},
        {"delegation": {"type": "client", "acknowledgement_delay_ms": 2**70}},
        {"delegation": {"type": "responses"}},
        {"instructions": "x"},
        {"nonsense": 1},
        [],
        None,
    ]
)
kinds = st.sampled_from(["instructions", "thinking", "commentary"])
client_events = st.one_of(
    st.fixed_dictionaries({"type": st.just("session.update"), "session": updates}),
    st.fixed_dictionaries({"type": st.just(REFLECTED), "audio": sounds}),
    st.fixed_dictionaries(
        {
            "type": kinds.map(lambda kind: f"session.{kind}.append"),
            "content": words,
            "delegation_id": ids,
        }
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["session.input_audio.mute", "session.input_audio.unmute"])},
        optional={"surprise": st.just(1)},
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["session.start", "nonsense", None, [], *sorted(UNSUPPORTED)])},
        optional={"session": st.just({"model": "gpt-live-1"})},
    ),
)
REPLIES = ("speak", "text", "end", "fail", "call", "delegate")
deeds = st.sampled_from(["turn", "noise", "words", "fault", "time", "time", "speak", *REPLIES])
ends = st.sampled_from(["close", "hangup", "engine", "session_expired", "drain"])


def speak(bench: Bench) -> None:
    """The engine speaks two words in its newest reply; one with a clock begins it itself."""
    clocked = bench.session.info.replies == "by_itself"
    if clocked:
        bench.begun += 1
        bench.event(contract.ReplyStarted(bench.reply or ""))
    if (reply := bench.reply) is None:
        return
    begun = bench.made.get(reply, 0)
    for start, word in ((begun, "one "), (begun + 2_400, "two ")):
        bench.event(contract.ReplyText(reply, word, start, start + 2_400))
    for _ in range(3):
        bench.event(contract.ReplyAudio(reply, np.full(TICK, 0.25, np.float32)))
        bench.now += 80_000_000 * clocked
    bench.made[reply] = begun + 3 * TICK


def do(bench: Bench, deed: str, number: int) -> None:
    """Makes ``deed`` happen if it can."""
    turn, reply = f"t{number}", bench.reply
    match deed:
        case "turn":
            bench.event(contract.Onset(0), contract.SpeechStarted(turn, 160))
            bench.event(contract.SpeechStopped(turn, 320), contract.TurnEnded(turn, 160, 320))
        case "noise":
            bench.event(contract.SpeechStarted(turn, 160), contract.SpeechStopped(turn, 320))
            bench.event(contract.TurnDropped(turn))
        case "words":
            bench.event(contract.SpeechStarted(turn, 160), contract.TranscriptDelta(turn, "so "))
            bench.event(contract.SpeechStopped(turn, 320), contract.TurnEnded(turn, 160, 320))
            bench.event(contract.TranscriptCompleted(turn, "so ", 1.0))
        case "speak":
            speak(bench)
        case "fault":
            bench.event(contract.Fault("odd", "something failed"))
        case "time":
            bench.pass_time(number % 7 * 0.3)
    if reply is None:
        return
    match deed:
        case "text":
            made = bench.made.get(reply, 0)
            bench.event(contract.ReplyText(reply, "late ", made, made))
        case "end":
            bench.event(contract.ReplyEnded(reply, "completed"))
        case "fail":
            bench.event(contract.ReplyEnded(reply, "failed", "no model"))
        case "call" | "delegate":
            name = DELEGATE.name if deed == "delegate" else "other"
            bench.event(contract.ToolCall(reply, f"c{number}", name, "{}"))


def finish(bench: Bench, how: str) -> None:
    if how == "close":
        bench.send({"type": "session.close", "event_id": "last"})
    elif how == "engine":
        bench.event(contract.Closed("engine_lost", 0, 0, "it is gone"))
    else:
        bench.session.close(how)
    bench.pass_time(0.2)
    bench.session.hear(np.zeros(160, np.float32))
    assert bench.session.ended


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=50, deadline=None)
@given(
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(get_args(Place)), client_events) | deeds, max_size=25),
    ends,
)
def test_whatever_is_sent_and_happens_every_event_is_valid_and_the_end_comes_last(
    engine: str, leg: bool, steps: list[tuple[Place, dict[str, Any]] | str], how: str
) -> None:
    bench = Bench(ENGINES[engine], leg=leg)
    for number, step in enumerate(steps):
        if isinstance(step, str):
            do(bench, step, number)
            continue
        place, event = step
        answers = bench.send(event | {"event_id": f"mine_{number}"}, place)
        assert [answer["client_event_id"] for answer in answers] in (
            ([], [f"mine_{number}"]) if event["type"] == REFLECTED else ([f"mine_{number}"],)
        )
    finish(bench, how)
    for hearer in (bench.client, bench.sideband):
        check(hearer)
    assert bench.client.types.count("session.started") == 1
    assert bench.client.types[0] == "session.started"
    assert not leg or not bench.client.of(SOUND)
    closed = bench.client.events[-1]
    shown = 0 if leg else sum(map(samples, bench.client.of(SOUND)))
    assert leg or closed["usage"]["seconds"] == shown // RATE


def samples(sound: dict[str, Any]) -> int:
    return len(base64.b64decode(sound["delta"], validate=True)) // 2


def check(hearer: Hearer) -> None:
    """The end comes once, and everything stands in order on one timeline."""
    assert hearer.types.count("session.closed") == 1
    assert hearer.types[-1] == "session.closed"
    named = [event["event_id"] for event in hearer.events if "event_id" in event]
    assert len(set(named)) == len(named)
    for kind in {kind for kind in hearer.types if kind.endswith(("delta", "appended"))}:
        places = [(e["start_ms"], e["end_ms"]) for e in hearer.of(kind) if "start_ms" in e]
        assert all(0 <= start <= end for start, end in places)
        assert all(before[0] <= after[0] for before, after in pairwise(places))
        if kind == SOUND:
            assert all(before[1] <= after[0] for before, after in pairwise(places))
    used = [e["usage"]["seconds"] for e in hearer.events if "usage" in e]
    assert used == sorted(used)
    tasks = [e["delegation"]["id"] for e in hearer.of("session.delegation.created")]
    assert len(set(tasks)) == len(tasks)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=40) | st.text(max_size=40), st.sampled_from(get_args(Place)))
def test_rubbish_is_answered_with_one_error(raw: bytes | str, place: Place) -> None:
    (answer,) = Bench().send(raw, place)
    assert answer["type"] == "error"
