"""What ``POST /v1/realtime/client_secrets`` answers, and what it refuses."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.service import Service, service

PATH = "/v1/realtime/client_secrets"


async def made(now: Service, body: dict[str, Any] | None = None) -> dict[str, Any]:
    answer = await now.caller.post(PATH, json=body) if body else await now.caller.post(PATH)
    assert answer.status == 200, await answer.text()
    assert answer.headers["Cache-Control"] == "no-store"
    return dict(await answer.json())


async def test_a_secret_comes_with_its_end_and_the_whole_session() -> None:
    async with service() as now:
        wanted = {"type": "realtime", "model": "gpt-realtime", "instructions": "Be brief."}
        before = time.time()
        answer = await made(now, {"session": wanted, "expires_after": {"seconds": 60}})
        assert set(answer) == {"value", "expires_at", "session"}
        assert answer["value"].startswith("ek_")
        assert int(before) + 60 <= answer["expires_at"] <= time.time() + 60
        session = answer["session"]
        assert session["object"] == "realtime.session"
        assert session["id"].startswith("sess_")
        assert wanted.items() <= session.items()
        assert session["audio"]["input"]["turn_detection"]["type"] == "server_vad"


async def test_nothing_has_to_be_asked_for() -> None:
    async with service() as now:
        nulls = {"session": None, "expires_after": None}
        bodies: tuple[dict[str, Any] | None, ...] = (None, nulls, {"expires_after": {}})
        for body in bodies:
            before = time.time()
            answer = await made(now, body)
            assert int(before) + 600 <= answer["expires_at"] <= time.time() + 600
            assert answer["session"]["type"] == "realtime"


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"expires_after": {"seconds": 9}}, "invalid_value", "expires_after.seconds"),
        ({"expires_after": {"seconds": 7201}}, "invalid_value", "expires_after.seconds"),
        ({"expires_after": {"seconds": "60"}}, "invalid_value", "expires_after.seconds"),
        ({"expires_after": {"anchor": "now"}}, "invalid_value", "expires_after.anchor"),
        ({"expires_after": 60}, "invalid_value", "expires_after"),
        ({"session": []}, "invalid_value", "session"),
        ({"session": {}}, "missing_required_parameter", "session.type"),
        ({"session": {"type": "none"}}, "invalid_value", "session.type"),
        ({"session": {"type": "realtime", "model": 1}}, "invalid_value", "session.model"),
        ({"session": {"type": "realtime", "model": None}}, "invalid_value", "session.model"),
        ({"session": {"type": "realtime", "model": "no"}}, "model_not_found", "session.model"),
        (
            {"session": {"type": "realtime", "audio": {"output": {"speed": "fast"}}}},
            "invalid_value",
            "session.audio.output.speed",
        ),
    ],
)
async def test_a_field_at_fault_is_named(body: dict[str, Any], code: str, param: str) -> None:
    async with service() as now:
        answer = await now.caller.post(PATH, json=body)
        error = (await answer.json())["error"]
        assert answer.status == (404 if code == "model_not_found" else 400)
        assert (error["code"], error["param"]) == (code, param)


@pytest.mark.parametrize("body", ["{", "[]", "1", "[" * 100_000, b"\xff"])
async def test_a_body_that_is_no_object_is_refused(body: str | bytes) -> None:
    async with service() as now:
        answer = await now.caller.post(PATH, data=body)
        assert (answer.status, (await answer.json())["error"]["code"]) == (400, "invalid_json")


async def test_a_key_that_made_too_many_is_told_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.client_secrets.MOST", 2)
    async with service() as now:
        for _ in range(2):
            await made(now)
        answer = await now.caller.post(PATH)
        assert answer.status == 429
        assert (await answer.json())["error"]["code"] == "rate_limit_exceeded"
        assert int(answer.headers["Retry-After"]) >= 1
