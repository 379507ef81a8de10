"""A page whose connection breaks goes on with the same call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.browser.caller import Caller
from tests.browser.networks import behind_a_relay, through_the_relay
from tests.browser.recording import RATE
from tests.cutting import cutting
from tests.serving import Server

if TYPE_CHECKING:
    from tests.conftest import Tell

pytestmark = pytest.mark.browser

NAMES = """parley.events.map(({ event }) => event.event_id).filter((name) => name)"""

QUIET = {"microphone_silent"}
"""What the page says of a caller who has said nothing yet."""


def saying(words: str) -> tuple[str, ...]:
    """An engine that answers so."""
    options = json.dumps({"mode": "scripted", "script": [{"text": words}]})
    return ("--engine.name", "simulated", "--engine.options", options)


def see_it_come_back(caller: Caller) -> None:
    """The page says that it reconnects, and then that it has."""
    line = caller.page.locator(".trouble[data-code=connection_unsteady]")
    line.wait_for(timeout=15_000)
    assert line.locator("strong").inner_text() == "Reconnecting…"
    line.wait_for(state="detached", timeout=15_000)


def see_one_session(caller: Caller) -> None:
    """It was told of its session twice, of everything else once."""
    ids = [event["session"]["id"] for event in caller.events("session.created")]
    assert len(ids) == 2 and len(set(ids)) == 1
    names = caller.page.evaluate(NAMES)
    assert len(names) == len(set(names))


def test_a_call_survives_a_blackout_and_comes_back_from_a_loss(
    caller: Caller, tmp_path: Path, tell: Tell
) -> None:
    with behind_a_relay(tmp_path / "log", *saying(100 * "counting ")) as (server, relay):
        through_the_relay(caller)
        caller.open(server.url)
        caller.talk()
        caller.page.evaluate("parley.sendText('Count.')")
        caller.wait("parley.state.activity === 'speaking'", 15)
        relay.dark = True
        caller.pause(2)
        relay.dark = False
        caller.pause(1)
        assert caller.state()["phase"] == "live"
        assert server.metric("parley_callers_lost_total") == 0
        assert caller.troubles().keys() <= QUIET
        lost = caller.now()
        relay.cut()
        see_it_come_back(caller)
        tell(f"from the loss to the call's going on: {(caller.now() - lost) / 1000:.1f} s")
        assert caller.state() == {
            "phase": "live",
            "activity": "speaking",
            "hearing": False,
            "muted": False,
            "transport": "webrtc",
        }
        see_one_session(caller)
        (asked, answer) = caller.captions()
        assert (asked.heard, answer.role) == ("Count.", "assistant")
        back = caller.now()
        caller.say(np.asarray(0.3 * np.sin(np.arange(RATE) / 20), np.float32))
        caller.wait_for_event("input_audio_buffer.speech_started", back)
        caller.hang_up()
        assert caller.troubles().keys() <= QUIET


def test_a_call_over_a_websocket_comes_back_with_every_word(caller: Caller, tmp_path: Path) -> None:
    words = " ".join(map(str, range(100, 140)))
    with (
        Server(*saying(words), log=tmp_path / "log") as server,
        cutting(server.url, b'"type":"response.output_audio.delta"') as network,
    ):
        caller.open(f"{network.url}?transport=websocket")
        caller.talk()
        caller.page.evaluate("parley.sendText('Count.')")
        caller.wait("parley.events.some(({ event }) => event.type === 'response.done')", 15)
        see_one_session(caller)
        assert network.cuts == 1
        (_, answer) = caller.captions()
        assert answer.heard == words
        caller.hang_up()
