"""A page that is reloaded in mid-call leaves nothing behind on the server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.browser.caller import Caller
from tests.browser.conftest import Tell
from tests.browser.voices import spoken
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.weights, pytest.mark.flite]

RELOADS = 10
SLACK = {"server threads": 2}
"""The pool that reads files for asyncio, of cores + 4 threads, may still be filling."""


def test_after_ten_reloads_no_more_is_held_than_after_the_first_call(
    caller: Caller, server: Server, tell: Tell
) -> None:
    first, *later = [_held_after_a_call(caller, server) for _ in range(1 + RELOADS)]
    tell(f"held after a call: {first}; after {RELOADS} more: {later[-1]}")
    assert first["sessions"] == later[-1]["sessions"] == 0
    assert all(later[-1][what] <= first[what] + SLACK.get(what, 0) for what in first)


def _held_after_a_call(caller: Caller, server: Server) -> dict[str, float]:
    caller.open(server.url)
    caller.talk()
    since = caller.now()
    caller.say(spoken("Hello."))
    caller.wait_for_event("output_audio_buffer.started", since)
    return _held(caller, server)


def _held(caller: Caller, server: Server) -> dict[str, float]:
    """What the server holds when the page has been left in mid-call."""
    caller.page.goto("about:blank")
    until = time.monotonic() + 5
    while server.metric("parley_sessions_active") and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1)  # The figures of the engine and the loop are at most so old.
    return {
        "sessions": server.metric("parley_sessions_active"),
        "engine sessions": server.metric("parley_engine", figure="sessions"),
        "tasks": server.metric("parley_tasks"),
    } | {
        f"{name} {kind}": count
        for name, pid in (("server", server.pid), ("engine", server.engine_pid))
        for kind, count in (
            ("threads", len([*Path(f"/proc/{pid}/task").iterdir()])),
            ("files", len([*Path(f"/proc/{pid}/fd").iterdir()])),
        )
    }
