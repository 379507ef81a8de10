"""Tools are taken by every engine; whether they are called is its own affair, and is told."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from engine.contract import Abilities
from tests.conformance.fake_session import INFO, Bench

TOOL = {"type": "function", "name": "canary", "parameters": {"type": "object"}}


@pytest.mark.parametrize("calls", [False, True])
def test_tools_that_nobody_will_call_are_logged_once_and_not_by_name(calls: bool) -> None:
    bench = Bench(info=replace(INFO, can=Abilities(tools=calls)))
    with capture_logs() as lines:
        for _ in range(2):
            session = {"type": "realtime", "tools": [TOOL]}
            bench.send(json.dumps({"type": "session.update", "session": session}))
            bench.session.apply()
            asked = {"conversation": "none", "tools": [TOOL]}
            bench.send(json.dumps({"type": "response.create", "response": asked}))
    assert bench.client.events[1]["session"]["tools"][0]["name"] == "canary"
    assert [(line["log_level"], line["session"]) for line in lines] == (
        [] if calls else [("info", "sess_fake")]
    )
    assert "canary" not in str(lines)
