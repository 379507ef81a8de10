"""A page that is reloaded in mid-call leaves nothing behind on the server."""

from __future__ import annotations

import os
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser.caller import Caller
from tests.browser.voices import spoken
from tests.conftest import Tell
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.weights, pytest.mark.flite]

RELOADS = 10
ESTABLISHED = "01"
"""In the kernel's table of connections."""
SLACK = {"server threads": min((os.cpu_count() or 1) + 4, RELOADS - 1)}
"""The pool that reads files for asyncio, of four threads more than there are cores, starts one
whenever more files than before are asked for at once; a leak would be one for each reload."""


def test_after_ten_reloads_no_more_is_held_than_after_the_first_call(
    caller: Caller, server: Server, tell: Tell
) -> None:
    _call_and_leave(caller, server)
    first = _settled(server, {})
    for _ in range(RELOADS):
        _call_and_leave(caller, server)
    last = _settled(server, first)
    tell(f"held after a call: {first}; after {RELOADS} more: {last}")
    assert first["sessions"] == last["sessions"] == 0
    assert _more(last, first) == {}


def _call_and_leave(caller: Caller, server: Server) -> None:
    caller.open(server.url)
    caller.talk()
    since = caller.now()
    caller.say(spoken("Hello."))
    caller.wait_for_event("output_audio_buffer.started", since)
    caller.page.goto("about:blank")


def _settled(server: Server, aim: dict[str, float]) -> dict[str, float]:
    """What the server holds once the page was left in mid-call: when it is down to ``aim``, else
    after some seconds, for a call ends a moment after its page."""
    until = time.monotonic() + 10
    while server.metric("parley_sessions_active") and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1.5)  # The figures of the engine and the loop are at most a second old.
    held = _held(server)
    while aim and _more(held, aim) and time.monotonic() < until:
        time.sleep(0.5)
        held = _held(server)
    return held


def _more(held: dict[str, float], aim: dict[str, float]) -> dict[str, float]:
    """By how much more there is of what there is more of than before."""
    grown = {what: held[what] - aim[what] - SLACK.get(what, 0) for what in aim}
    return {what: more for what, more in grown.items() if more > 0}


def _held(server: Server) -> dict[str, float]:
    """Counts of everything; connections that the browser keeps for its next request, each a file
    and a task of the server, are no call's and left out."""
    kept = _connections(server)
    held = {
        "sessions": server.metric("parley_sessions_active"),
        "engine sessions": server.metric("parley_engine", figure="sessions"),
        "tasks": server.metric("parley_tasks") - kept,
    } | {
        f"{name} {kind}": float(count)
        for name, pid in (("server", server.pid), ("engine", server.engine_pid))
        for kind, count in (
            ("threads", len([*Path(f"/proc/{pid}/task").iterdir()])),
            ("files", len([*Path(f"/proc/{pid}/fd").iterdir()])),
        )
    }
    held["server files"] -= kept
    return held


def _connections(server: Server) -> int:
    """Open HTTP connections to the server."""
    port = f":{urlsplit(server.url).port:04X}"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(1 for row in rows if row[1].endswith(port) and row[3] == ESTABLISHED)
