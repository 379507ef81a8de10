"""What goes wrong is said in the page, in a sentence for the person in front of it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser.caller import Caller
from tests.browser.conftest import GRANTED, Chromium
from tests.serving import Server

pytestmark = pytest.mark.browser


def test_a_full_server_says_when_to_try_again(caller: Caller, simulated: Server) -> None:
    caller.open(simulated.url)
    caller.talk()
    other = Caller(caller.page.context.new_page())
    other.open(simulated.url)
    other.page.click("#talk")
    assert _told(other, "server_busy") == (
        "The server is full",
        "The server is talking to as many people as it can. Try again in 5 seconds.",
    )
    caller.hang_up()
    other.talk()
    assert other.troubles() == {}
    other.hang_up()


@pytest.mark.parametrize(
    ("how", "code", "title"),
    [
        ("kill", "connection_lost", "The connection was lost"),
        ("stop", "server_draining", "The server is shutting down"),
    ],
)
def test_a_server_that_goes_in_mid_call_is_missed(
    caller: Caller, tmp_path: Path, how: str, code: str, title: str
) -> None:
    flags = ("--engine.name", "simulated", "--limits.drain", "1")
    with Server(*flags, log=tmp_path / "log") as server:
        caller.open(server.url)
        caller.talk()
        getattr(server, how)()
        assert _told(caller, code, within=40)[0] == title
        caller.wait("parley.state.phase === 'ended'", 5)


def test_a_server_that_is_gone_before_the_call_is_named(caller: Caller, tmp_path: Path) -> None:
    with Server("--engine.name", "simulated", log=tmp_path / "log") as server:
        caller.open(server.url)
        server.kill()
        caller.page.click("#talk")
        assert _told(caller, "server_unreachable")[0] == "The server does not answer"


def test_a_microphone_that_is_refused_is_asked_for_in_words(
    chromium: Chromium, simulated: Server
) -> None:
    with chromium("--deny-permission-prompts") as browser:
        page = browser.new_page()
        page.goto(simulated.url)
        page.click("#talk")
        trouble = page.locator(".trouble[data-code=microphone_denied] p")
        trouble.wait_for()
        assert "Allow it in the site settings" in trouble.inner_text()


def test_an_address_that_is_not_secure_is_explained(chromium: Chromium, tmp_path: Path) -> None:
    flags = ("--engine.name", "simulated", "--allowed-hosts", "voice.test")
    mapped = "--host-resolver-rules=MAP voice.test 127.0.0.1"
    with (
        Server(*flags, log=tmp_path / "log") as server,
        chromium(GRANTED, mapped) as browser,
    ):
        page = browser.new_page()
        page.goto(f"http://voice.test:{urlsplit(server.url).port}/")
        page.click("#talk")
        trouble = page.locator(".trouble[data-code=insecure_context] p")
        trouble.wait_for()
        assert "https" in trouble.inner_text()


def _told(caller: Caller, code: str, within: float = 10) -> tuple[str, str]:
    """The title and the sentence of a trouble, once the page shows it."""
    line = caller.page.locator(f".trouble[data-code={code}] p")
    line.wait_for(timeout=within * 1000)
    title = line.locator("strong").inner_text()
    return title, line.inner_text().removeprefix(title).strip()
