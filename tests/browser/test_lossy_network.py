"""Bad networks, by a relay between the page and its server: what is said is understood, what is
answered is heard, and neither comes later for good.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import Browser

from engine.weights import Paths
from tests.browser.caller import Caller
from tests.browser.conftest import calling
from tests.browser.networks import behind_a_relay, through_the_relay
from tests.browser.recording import RATE, Recording, Stretch
from tests.network.relay import CLEAR, Conditions, Relay
from tests.serving import Server
from tests.sounds import error_rate, librivox

if TYPE_CHECKING:
    from tests.conftest import Tell

pytestmark = [pytest.mark.browser, pytest.mark.full, pytest.mark.timeout(300)]

NETWORKS = {
    "1 % lost": Conditions(loss=0.01),
    "5 % lost": Conditions(loss=0.05),
    "10 % lost": Conditions(loss=0.10),
    "5 % lost, five at once": Conditions(loss=0.05, burst=5),
    "60 ms of jitter": Conditions(jitter=0.06),
    "5 % out of order": Conditions(late=0.05),
    "5 % twice": Conditions(twice=0.05),
}
WORSE = 0.05
"""How much more of the words may be wrong than over a clear network."""
SILENT_MS = 200.0
"""The longest that a reply may be inaudible."""
LATER_MS = 20.0
"""How much later than before sound may come two seconds after losses."""

each_network = pytest.mark.parametrize("network", NETWORKS)


@dataclass(frozen=True, slots=True)
class Behind:
    """A server and the network in front of it."""

    server: Server
    relay: Relay


@pytest.fixture(scope="module")
def parley(weights: Paths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """With the default engine."""
    with behind_a_relay(tmp_path_factory.mktemp("parley") / "log") as (server, relay):
        yield Behind(server, relay)


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """With an engine that answers at length."""
    options = json.dumps({"mode": "scripted", "script": [{"text": 100 * "counting "}]})
    flags = ("--engine.name", "simulated", "--engine.options", options)
    with behind_a_relay(tmp_path_factory.mktemp("counting") / "log", *flags) as (server, relay):
        yield Behind(server, relay)


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """With an engine that gives back what it hears at once."""
    options = json.dumps({"replies": "by_itself", "tick": 320, "threshold": 0})
    flags = ("--engine.name", "simulated", "--engine.options", options)
    with behind_a_relay(tmp_path_factory.mktemp("echo") / "log", *flags) as (server, relay):
        yield Behind(server, relay)


@pytest.fixture(scope="module")
def clear(browser: Browser, parley: Behind) -> float:
    """The share of recorded people's words that is wrong over a clear network."""
    with calling(browser) as caller:
        return _wrong(caller, parley, CLEAR)


@each_network
@pytest.mark.weights
@pytest.mark.recordings
def test_people_are_understood_nearly_as_well(
    caller: Caller, parley: Behind, clear: float, network: str, tell: Tell
) -> None:
    wrong = _wrong(caller, parley, NETWORKS[network])
    tell(f"{network}: {wrong:.1%} of the words wrong; over a clear network {clear:.1%}")
    assert wrong <= clear + WORSE


@each_network
def test_a_reply_is_heard_without_a_pause(
    caller: Caller, counting: Behind, network: str, tell: Tell
) -> None:
    _call(caller, counting)
    caller.page.evaluate("parley.sendText('Count.')")
    caller.wait("parley.state.activity === 'speaking'", 15)
    counting.relay.becomes(NETWORKS[network])
    caller.pause(8)
    recording = caller.recording()
    heard = Stretch(recording.end - 7 * RATE, recording.end - RATE // 2)
    gaps = [gap.ms for gap in recording.gaps(heard, 20)]
    tell(f"{network}: inaudible for {max(gaps, default=0):.0f} ms at most, {sum(gaps):.0f} in all")
    assert max(gaps, default=0) <= SILENT_MS
    counting.relay.becomes(CLEAR)
    caller.hang_up()


@pytest.mark.recordings
def test_two_seconds_after_losses_sound_comes_no_later_than_before(
    caller: Caller, echo: Behind, tell: Tell
) -> None:
    speech = np.concatenate([clip.pcm for clip in librivox(RATE)])
    _call(caller, echo)
    caller.say(speech[: 14 * RATE])
    caller.pause(4)
    echo.relay.becomes(Conditions(loss=0.2, burst=5))
    caller.pause(3)
    echo.relay.becomes(CLEAR)
    caller.pause(5.5)
    recording = caller.recording()
    over = recording.end - round(5.5 * RATE)
    before = _delay_ms(recording, Stretch(over - 6 * RATE, over - round(3.5 * RATE)))
    during = _delay_ms(recording, Stretch(over - 2 * RATE, over))
    after = _delay_ms(recording, Stretch(over + 2 * RATE, over + round(4.5 * RATE)))
    tell(f"echo: {before:.0f} ms, with 20 % lost {during:.0f}, two seconds after {after:.0f}")
    assert after <= before + LATER_MS
    caller.hang_up()


def test_a_call_follows_a_caller_whose_address_changes(
    caller: Caller, counting: Behind, tell: Tell
) -> None:
    _call(caller, counting)
    caller.page.evaluate("parley.sendText('Count.')")
    caller.wait("parley.state.activity === 'speaking'", 15)
    caller.pause(1)
    moved = caller.recording().end
    counting.relay.move()
    caller.pause(12)
    recording = caller.recording()
    gaps = recording.gaps(Stretch(moved, recording.end - RATE // 2), 100)
    tell(f"a changed address: nothing was heard for {sum(gap.ms for gap in gaps) / 1000:.1f} s")
    assert caller.state()["phase"] == "live"
    assert gaps == [] or gaps[-1].end < recording.end - 2 * RATE
    caller.hang_up()


def _call(caller: Caller, behind: Behind) -> None:
    behind.relay.becomes(CLEAR)
    through_the_relay(caller)
    caller.open(behind.server.url)
    caller.talk()


def _wrong(caller: Caller, behind: Behind, conditions: Conditions) -> float:
    _call(caller, behind)
    behind.relay.becomes(conditions)
    clips, heard = librivox(RATE), list[str]()
    for clip in clips:
        known = {caption.id for caption in caller.captions()}
        caller.wait_for_frame(caller.say(clip.pcm).end)
        caller.wait_for_turn()
        caller.stop_reply()
        new = [caption for caption in caller.captions() if caption.id not in known]
        heard += [caption.heard for caption in new if caption.role == "user"]
    behind.relay.becomes(CLEAR)
    caller.hang_up()
    return error_rate(" ".join(clip.text for clip in clips), " ".join(heard))


def _delay_ms(recording: Recording, where: Stretch) -> float:
    """By how much the reply, an echo, is behind the caller in ``where``, at most half a second."""
    said = recording.local[where.first - recording.first : where.end - recording.first]
    heard = recording.heard(Stretch(where.first, where.end + RATE // 2))
    size = len(said) + len(heard)
    alike = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(said, size)), size)
    return float(np.argmax(np.abs(alike[: RATE // 2]))) * 1000 / RATE
