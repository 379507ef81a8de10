"""Chromium for the tests, the servers they share, and a place for the figures they take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.browser.caller import Caller
from tests.serving import Server
from tests.serving import server as server

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
    "--allow-loopback-in-peer-connection",
)
"""A browser without a sound card or a network, on the same machine as its server."""
GRANTED = "--use-fake-ui-for-media-stream"
"""Who is asked for the microphone says yes."""

Chromium = Callable[..., Browser]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """Starts Chromium, with these flags besides the usual ones."""
    with sync_playwright() as playwright:
        yield lambda *flags: _launched(playwright, flags)


@pytest.fixture(scope="module")
def browser(chromium: Chromium) -> Browser:
    """The Chromium that a module's tests share."""
    return chromium(GRANTED)


@pytest.fixture
def caller(browser: Browser) -> Iterator[Caller]:
    """A caller for one test."""
    with calling(browser) as caller:
        yield caller


@contextmanager
def calling(browser: Browser) -> Iterator[Caller]:
    """A caller with a page of its own, in which nothing may fail."""
    with browser.new_context(bypass_csp=True) as context:
        caller = Caller(context.new_page())
        yield caller
    assert caller.errors == []


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose engine is simulated, with room for one caller."""
    log = tmp_path_factory.mktemp("server") / "log"
    with Server("--engine.name", "simulated", "--capacity", "1", log=log) as running:
        yield running


class StolenTime:
    """The processor time that other machines take from this one: it makes figures worse."""

    def __init__(self) -> None:
        self._began, self._stolen = time.monotonic(), _stolen()

    def share(self) -> str:
        """What was taken since, of one core."""
        share = (_stolen() - self._stolen) / (time.monotonic() - self._began)
        return f"{share:.1%} of a core stolen"


def _launched(playwright: Playwright, flags: tuple[str, ...]) -> Browser:
    return playwright.chromium.launch(
        executable_path=CHROMIUM, args=[*FLAGS, *flags], ignore_default_args=["--mute-audio"]
    )


def _stolen() -> float:
    """Seconds, of all cores, since the machine started (``proc(5)``)."""
    return int(Path("/proc/stat").read_text().split()[8]) / 100
