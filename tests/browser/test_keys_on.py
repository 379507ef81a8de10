"""The page of a server with API keys: its link signs it in, on both ways that a call can go."""

from __future__ import annotations

from pathlib import Path

import pytest

from server import keys
from tests.browser.caller import Caller
from tests.serving import Server

pytestmark = pytest.mark.browser


def test_the_page_works_with_keys_on(caller: Caller, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    _, key = keys.create(path, "", 0)
    flags = ("--engine.name", "simulated", "--keys-file", str(path))
    with Server(*flags, log=tmp_path / "log") as server:
        page, _, token = server.url.partition("?token=")
        over_socket = f"{page}?transport=websocket&token={token}"
        for link in (server.url, over_socket, f"{page}?token={key}"):
            caller.page.context.clear_cookies()
            caller.open(link)
            assert "token" not in caller.page.url
            caller.talk()
            assert caller.troubles() == {}
            caller.hang_up()
            caller.wait("parley.state.phase === 'ended'", 10)
        caller.page.context.clear_cookies()
        caller.page.click("#talk")
        caller.page.locator(".trouble[data-code=unauthorized]").wait_for()
