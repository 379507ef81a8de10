"""Networks that let no WebRTC through: the call goes over WebSocket, and the page says so."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Route

from tests.browser.caller import Caller
from tests.browser.voices import spoken
from tests.conftest import Tell
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.weights, pytest.mark.flite]

WITHIN = 5.0
"""Seconds from the tap to a call that carries sound."""


def test_a_page_that_asks_for_a_websocket_holds_a_turn_over_it(
    caller: Caller, server: Server
) -> None:
    caller.open(f"{server.url}?transport=websocket")
    caller.talk()
    _hold_a_turn(caller)
    assert caller.troubles() == {}


def test_where_no_media_passes_the_call_is_on_a_websocket_within_five_seconds(
    caller: Caller, server: Server, tell: Tell
) -> None:
    caller.page.route("**/v1/realtime/calls?*", _without_candidates)
    caller.open(server.url)
    began = time.monotonic()
    caller.talk()
    taken = time.monotonic() - began
    tell(f"from the tap to a call over WebSocket: {taken:.1f} s")
    assert taken <= WITHIN
    title, _, sentence = caller.troubles()["media_blocked"].partition("\n")
    assert title == "Sound goes over WebSocket"
    assert "WebRTC" in sentence
    _hold_a_turn(caller)


def test_a_turn_server_that_does_not_answer_delays_neither_a_call_nor_the_way_out(
    caller: Caller, tmp_path: Path, tell: Tell
) -> None:
    with _silent_turn_server() as urls:
        servers = json.dumps([{"urls": urls, "secret": "shared"}])
        flags = ("--engine.name", "simulated", "--webrtc.ice-servers", servers)
        with Server(*flags, log=tmp_path / "log") as server:
            caller.open(server.url)
            direct = _connected(caller, "webrtc")
            caller.page.route("**/v1/realtime/calls?*", _without_candidates)
            caller.open(server.url)
            around = _connected(caller, "websocket")
    tell(f"beside a silent TURN server: a call in {direct:.1f} s, over WebSocket in {around:.1f} s")
    assert around <= WITHIN


@contextmanager
def _silent_turn_server() -> Iterator[list[str]]:
    """The URLs of one that takes packets and connections, and never says anything."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        yield [f"turn:127.0.0.1:{port}?transport={kind}" for kind in ("udp", "tcp")]


def _connected(caller: Caller, transport: str) -> float:
    """Calls; returns the seconds from the tap until sound can flow."""
    began = time.monotonic()
    caller.talk()
    taken = time.monotonic() - began
    assert caller.state()["transport"] == transport
    caller.hang_up()
    return taken


def _hold_a_turn(caller: Caller) -> None:
    assert caller.state()["transport"] == "websocket"
    _, captions = caller.ask(spoken("What is the capital of France?"))
    asked, answer = captions
    assert "capital of france" in asked.heard.lower()
    assert answer.role == "assistant" and answer.state == "final" and answer.heard
    assert caller.page.evaluate("parley.stats().then(({ turns }) => turns.length)") == 1


def _without_candidates(route: Route) -> None:
    """Both sides' addresses are lost on the way, as if a firewall dropped every packet."""
    answer = route.fetch(post_data=_unreachable(route.request.post_data or ""))
    route.fulfill(response=answer, body=_unreachable(answer.text()))


def _unreachable(sdp: str) -> str:
    lines = sdp.split("\r\n")
    return "\r\n".join(line for line in lines if not line.startswith("a=candidate:"))
