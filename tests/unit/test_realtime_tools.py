"""Tools are taken by every engine; whether they are called is its own affair, and is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from engine.contract import Abilities, Respond
from engine.remote import wire
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


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**4000])
@pytest.mark.parametrize(
    ("kind", "field"), [("session.update", "session"), ("response.create", "response")]
)
def test_a_number_that_no_engine_can_be_told_is_refused(kind: str, field: str, number: int) -> None:
    bench = Bench()
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": number}}}
    asked = {"type": "realtime"} if field == "session" else {}
    answer: Any
    (answer,) = bench.send(
        json.dumps({"type": kind, field: asked | {"tools": [TOOL | {"parameters": schema}]}})
    )
    assert (answer["error"]["code"], answer["error"]["param"]) == (
        "invalid_value",
        f"{field}.tools",
    )
    assert "2**64 - 1" in answer["error"]["message"]
    assert not (bench.session.updates or bench.session.requests)


def test_the_largest_numbers_of_a_schema_reach_an_engine_in_another_process() -> None:
    bench = Bench()
    schema = {
        "minimum": -(2**63),
        "maximum": 2**64 - 1,
        "multipleOf": 1e300,
        "enum": ["\U0001f600"],
    }
    asked = {"tools": [TOOL | {"parameters": schema}]}
    assert not bench.send(json.dumps({"type": "response.create", "response": asked}))
    (request,) = bench.session.requests
    order = Respond(reply="r", revision=1, tools=request.tools)
    unpacker = wire.Unpacker(wire.ToHost)
    assert list(unpacker.push(wire.pack(wire.Give(1, order)))) == [wire.Give(1, order)]
