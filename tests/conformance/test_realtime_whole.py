"""Whatever clients send to a whole session, what comes is valid, in order, and ends once.

Session, adapter and engine are the real ones, the engine simulated: told when to reply, or replying
by itself. A client and a sideband send what comes to their minds while somebody speaks.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.contract import Samples
from engine.simulated import Simulated
from server.manager import Manager
from server.observe import Metrics
from server.protocol.realtime.opening import wanted
from server.settings import ServerSettings
from server.stay import Stay
from tests.conformance.strict import StrictClient
from tests.conformance.test_realtime_order import begin, client_events

CALL = {"text": "Let me see.", "calls": ({"name": "weather"},)}
ENGINES: dict[str, dict[str, Any]] = {
    "when told": {"transcripts": ("one two three", "", None, "four five")},
    "with tools": {
        "mode": "scripted",
        "script": ({"calls": ({"name": "weather"},)}, {"text": "x"}),
    },
    "by itself": {"replies": "by_itself", "mode": "scripted", "transcripts": ("one two", "")},
    "echo by itself": {"replies": "by_itself"},
}
ANSWERED = ("completed", "failed")
TRANSCRIPTION = "conversation.item.input_audio_transcription."
RATE = 16_000


def sound(loud: bool, milliseconds: int) -> Samples:
    at = np.arange(RATE * milliseconds // 1000)
    return np.asarray(0.3 * loud * np.sin(at / 5), np.float32)


def quiet(step: Any) -> bool:
    """Leaves transcription as it is, so that every turn must have its transcript."""
    audio = (step.get("session") or {}).get("audio") or {}
    return "transcription" not in (audio.get("input") or {}) if isinstance(audio, dict) else True


said = st.tuples(st.just("say"), st.sampled_from([50, 200, 600]))
turn = st.just(("turn", 400))
silent = st.tuples(st.just("hush"), st.sampled_from([100, 400, 900]))
waits = st.tuples(st.just("wait"), st.sampled_from([0, 2, 10]))
steps = st.lists(
    st.tuples(st.sampled_from(["client", "sideband"]), client_events.filter(quiet) | begin)
    | said
    | silent
    | turn
    | waits,
    min_size=5,
    max_size=30,
)


class Hearer:
    """One subscriber, and the updates it asked for."""

    def __init__(self, paced: bool) -> None:
        self.strict = StrictClient(paced=paced)
        self.updates: set[str] = set()

    def send(self, text: bytes) -> None:
        self.strict.see(text)

    @property
    def refused(self) -> list[str]:
        """The events of its own that it was told were no good."""
        errors = (e["error"] for e in self.strict.events if e["type"] == "error")
        return [error["event_id"] for error in errors if error["event_id"] is not None]


async def live(engine: str, paced: bool, script: list[tuple[str, Any]]) -> None:
    manager = Manager(Simulated(ENGINES[engine]), ServerSettings(), Metrics())
    await manager.start()
    try:
        stay = await manager.admit(wanted(None, model="simulated"), leg=paced)
        hearers = {name: Hearer(paced) for name in ("client", "sideband")}
        for hearer in hearers.values():
            stay.audience.join(hearer, "client")
        for number, (who, what) in enumerate(script):
            await act(stay, hearers, who, what, number)
        await settled(stay, hearers["client"].strict)
        await stay.end("hangup")
        for name, hearer in hearers.items():
            check(hearer, name)
        told, aside = (shared(hearer.strict) for hearer in hearers.values())
        assert told == aside
        accepted = sum(len(h.updates - set(h.refused)) for h in hearers.values())
        assert told.count("session.updated") == accepted
    finally:
        await manager.stop()


async def act(stay: Stay, hearers: dict[str, Hearer], who: str, what: Any, number: int) -> None:
    if who == "wait":
        await asyncio.sleep(what / 1000)
    elif who in ("say", "hush", "turn"):
        stay.session.hear(sound(who != "hush", what))
        if who == "turn":
            stay.session.hear(sound(False, 900))
        await asyncio.sleep(0)
    else:
        event_id = f"{who}_{number}"
        stay.inbox.receive(json.dumps(what | {"event_id": event_id}), hearers[who])
        await asyncio.sleep(0)
        if what["type"] == "session.update":
            hearers[who].updates.add(event_id)


async def settled(stay: Stay, client: StrictClient) -> None:
    """Waits until what was begun is answered."""
    async with asyncio.timeout(20):
        while stay.session.waiting or owed(client):  # noqa: ASYNC110 - a state of several things
            await asyncio.sleep(0.01)


def owed(client: StrictClient) -> set[str]:
    """Committed items without a transcript."""
    return committed(client) - set(transcribed(client))


def committed(client: StrictClient) -> set[str]:
    kind = "input_audio_buffer.committed"
    return {event["item_id"] for event in client.events if event["type"] == kind}


def transcribed(client: StrictClient) -> list[str]:
    ends = [TRANSCRIPTION + end for end in ANSWERED]
    return [event["item_id"] for event in client.events if event["type"] in ends]


def check(hearer: Hearer, name: str) -> None:
    """Everything that began has ended, once, and errors went to who caused them."""
    client = hearer.strict
    client.finish()
    assert Counter(transcribed(client)) == Counter(committed(client))
    assert all(event_id.startswith(name) for event_id in hearer.refused)
    assert len(set(hearer.refused)) == len(hearer.refused)


def shared(client: StrictClient) -> list[str]:
    """What everybody is told."""
    own = ("error", "conversation.item.retrieved")
    return [kind for kind in client.types if kind not in own]


async def test_a_refused_update_is_told_to_its_sender_alone() -> None:
    manager = Manager(Simulated(ENGINES["by itself"]), ServerSettings(), Metrics())
    await manager.start()
    try:
        stay = await manager.admit(wanted(None, model="simulated"))
        client, sideband = hearers = Hearer(False), Hearer(False)
        for number, hearer in enumerate(hearers):
            stay.audience.join(hearer, "client")
            session = {"type": "realtime", "instructions": f"role {number}"}
            update = {"type": "session.update", "event_id": f"mine_{number}", "session": session}
            stay.inbox.receive(json.dumps(update), hearer)
            await settled(stay, client.strict)
        assert (client.refused, sideband.refused) == ([], ["mine_1"])
        assert client.strict.types[2:] == ["session.updated"]
    finally:
        await manager.stop()


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=25, deadline=None)
@given(paced=st.booleans(), script=steps)
def test_whatever_is_said_and_sent_everything_ends_once_and_in_order(
    engine: str, paced: bool, script: list[tuple[str, Any]]
) -> None:
    asyncio.run(live(engine, paced, script))
