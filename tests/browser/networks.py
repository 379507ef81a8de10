"""Servers whose calls go through a network of any quality."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Route

from tests.browser.caller import Caller
from tests.network.relay import Relay
from tests.serving import Server


@contextmanager
def behind_a_relay(log: Path, *flags: str) -> Iterator[tuple[Server, Relay]]:
    """A server whose calls go through a relay."""
    port = free_port()
    with Relay(("127.0.0.1", port)) as relay:
        told = ("--webrtc.public-addresses", f"127.0.0.1:{relay.port}")
        with Server("--webrtc.port", str(port), *told, *flags, log=log) as server:
            yield server, relay


def free_port() -> int:
    """A UDP port that nobody has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def through_the_relay(caller: Caller) -> None:
    """Has the service learn no address of the page's but that of the relay."""
    caller.page.route("**/v1/realtime/calls?*", _without_candidates)


def _without_candidates(route: Route) -> None:
    offer = (route.request.post_data or "").split("\r\n")
    kept = [line for line in offer if not line.startswith("a=candidate:")]
    route.continue_(post_data="\r\n".join(kept))
