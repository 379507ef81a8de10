"""Networks in small: a NAT, a firewall, and what ``compose.yaml`` publishes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, sync_playwright

from server.tls import self_signed
from tests.browser.caller import Caller
from tests.browser.conftest import FLAGS, GRANTED
from tests.browser.recording import RATE
from tests.conftest import Tell
from tests.network import namespaces
from tests.network.namespaces import PUBLIC, URL, Network
from tests.serving import COMMAND, Server

pytestmark = [pytest.mark.namespaces, pytest.mark.browser]

FALLBACK = 5.0
"""Seconds from the tap to a call over WebSocket; twice as many on a machine that is busy."""

FLAGS_OF_SERVE = (
    *("--port", "8300", "--engine.name", "simulated"),
    *("--webrtc.addresses", namespaces.PARLEY),  # the only ones of a container
)


@dataclass
class Place:
    """A network with Parley and coturn in it, both as deployed, and a browser behind the NAT."""

    network: Network
    environment: dict[str, str]
    turnserver: Path
    browser: Browser


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("namespaces")
    for made, name in zip(
        self_signed(folder / "made", [PUBLIC]), ("fullchain.pem", "privkey.pem"), strict=True
    ):
        shutil.copy(made, folder / name)
    environment, turnserver = namespaces.deployed(folder)
    with (
        namespaces.network() as network,
        sync_playwright() as playwright,
        Server(
            *FLAGS_OF_SERVE,
            log=folder / "log",
            environment=environment,
            under=network.within("host"),
        ),
    ):
        browser = playwright.chromium.launch(
            executable_path=namespaces.chromium(network, folder),
            args=[*FLAGS, GRANTED],
            ignore_default_args=["--mute-audio"],
        )
        yield Place(network, environment, turnserver, browser)


@pytest.fixture
def caller(place: Place) -> Iterator[Caller]:
    with place.browser.new_context(bypass_csp=True, ignore_https_errors=True) as context:
        caller = Caller(context.new_page())
        yield caller
    assert caller.errors == []


def connect(caller: Caller) -> float:
    """Opens the page and calls; returns the seconds from the tap."""
    caller.open(URL)
    began = time.monotonic()
    caller.talk(within=20)
    return time.monotonic() - began


def hold_a_turn(caller: Caller) -> None:
    """Sound and events pass both ways: a tone is heard as a turn, and comes back. What comes over
    a WebSocket is played by the page itself, which tells when it is over.
    """
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE).astype(np.float32)
    since = caller.now()
    said = caller.say(tone)
    caller.wait_for_event("input_audio_buffer.committed", since)
    caller.wait_for_event("output_audio_buffer.stopped", since)
    if caller.state()["transport"] == "webrtc":
        caller.pause(0.5)
        recording = caller.recording()
        assert np.abs(recording.remote[said.end - recording.first :]).max() > 0.1


def path(caller: Caller) -> str:
    """How sound travels, as the page shows it."""
    return str(caller.page.evaluate("parley.stats().then(({ path }) => path)"))


def test_where_udp_is_blocked_a_caller_talks_through_coturn_over_tcp(
    place: Place, caller: Caller, tell: Tell
) -> None:
    with place.network.without_udp(), namespaces.coturn(place.network, place.turnserver):
        taken = connect(caller)
        tell(f"behind a NAT without UDP, by coturn over TCP: {taken:.1f} s")
        assert caller.state()["transport"] == "webrtc"
        hold_a_turn(caller)
        assert "relayed (TURN)" in path(caller)
        caller.hang_up()


def test_the_doctor_finds_that_coturn_relays_to_parley_alone_over_udp_tcp_and_tls(
    place: Place,
) -> None:
    trusted = {"SSL_CERT_FILE": str(place.turnserver.with_name("fullchain.pem"))}
    with namespaces.coturn(place.network, place.turnserver):
        ran = subprocess.run(
            [*place.network.within("host"), COMMAND, "doctor", *FLAGS_OF_SERVE],
            env=os.environ | place.environment | trusted,
            capture_output=True,
            text=True,
            timeout=60,
        )
    for url in ("turn:{}:3478?transport=udp", "turn:{}:3478?transport=tcp", "turns:{}:5349"):
        assert re.search(rf"ok +TURN server +{re.escape(url.format(PUBLIC))}.* relays", ran.stdout)
    assert f"public address {PUBLIC}:8300 (UDP) answers" in ran.stdout
    assert ran.returncode == 0
    # It was asked to relay to another address first.
    assert f"A peer IP {PUBLIC} denied" in place.turnserver.with_name("turn.log").read_text()


@pytest.mark.full
def test_where_udp_is_blocked_and_no_turn_server_answers_a_caller_talks_over_a_websocket(
    place: Place, caller: Caller, tell: Tell
) -> None:
    with place.network.without_udp():
        taken = connect(caller)
        tell(f"behind a NAT without UDP, over WebSocket: {taken:.1f} s")
        assert caller.state()["transport"] == "websocket"
        assert taken <= 2 * FALLBACK
        hold_a_turn(caller)
        caller.hang_up()


@pytest.mark.full
def test_firefox_and_chromium_call_from_behind_one_nat_through_one_port(
    place: Place, caller: Caller
) -> None:
    other = namespaces.firefox(place.network, URL)
    try:
        connect(caller)
        hold_a_turn(caller)
        assert "UDP" in path(caller) and "TURN" not in path(caller)
        saw = namespaces.seen(other)
        hold_a_turn(caller)
    finally:
        other.kill()
    assert saw["transport"] == "webrtc"
    assert saw["path"].endswith("UDP")
    assert saw["received"] >= 20 and saw["energy"] > 0
    assert {"session.created", "input_audio_buffer.committed", "response.done"} <= {*saw["events"]}


@pytest.mark.full
def test_firefox_talks_through_coturn_where_udp_is_blocked(place: Place) -> None:
    with place.network.without_udp(), namespaces.coturn(place.network, place.turnserver):
        saw = namespaces.seen(namespaces.firefox(place.network, URL))
    assert saw["transport"] == "webrtc"
    assert "relayed (TURN)" in saw["path"]
    assert saw["received"] >= 20 and saw["energy"] > 0
