"""What lies at each path, and how errors leave it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pytest
from aiohttp import FormData, web
from aiohttp.test_utils import TestClient, TestServer

from engine.contract import EngineUnavailable
from engine.simulated import Simulated
from server.access import access_of
from server.app import create_app
from server.manager import Manager
from server.observe import Metrics
from server.settings import ServerSettings
from server.transport.addresses import is_loopback, media_addresses

OFFER = "v=0\r\nm=audio 9 X\r\na=ice-ufrag:abcd\r\na=ice-pwd:x\r\na=fingerprint:sha-256 AA\r\n"
SDP = {"Content-Type": "application/sdp"}


@dataclass
class Service:
    manager: Manager
    metrics: Metrics
    caller: TestClient[web.Request, web.Application]


@asynccontextmanager
async def service(*, start: bool = True, **settings: Any) -> AsyncIterator[Service]:
    chosen = ServerSettings(**settings)
    metrics = Metrics()
    manager = Manager(Simulated({}), chosen, metrics)
    app = create_app(manager, chosen, metrics, access_of(chosen))
    async with TestClient(TestServer(app)) as caller:
        if start:
            await manager.start()
        try:
            yield Service(manager, metrics, caller)
        finally:
            await manager.stop()


async def error(response: Any) -> tuple[int, str, str | None]:
    body = (await response.json())["error"]
    assert set(body) == {"message", "type", "code", "param"}
    return response.status, body["code"], body["param"]


async def test_a_probe_can_tell_starting_from_ready_from_draining() -> None:
    async with service(start=False) as now:
        assert (await now.caller.get("/health")).status == 200
        assert (await now.caller.get("/ready")).status == 503
        await now.manager.start()
        assert (await now.caller.get("/ready")).status == 200
        await now.manager.drain(0)
        response = await now.caller.get("/ready")
        assert (response.status, await response.json()) == (503, {"status": "draining"})


async def test_before_the_engine_tells_its_facts_callers_are_told_when_to_ask_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(engine: Simulated) -> None:
        raise EngineUnavailable("it has not started")

    monkeypatch.setattr(Simulated, "info", property(unknown))
    async with service(start=False) as now:
        for answer in (
            await now.caller.get("/v1/models"),
            await now.caller.get("/v1/models/parley"),
            await now.caller.get("/v1/realtime"),
            await now.caller.post("/v1/realtime/calls", headers=SDP, data=OFFER),
        ):
            assert await error(answer) == (503, "engine_not_ready", None)
            assert int(answer.headers["Retry-After"]) >= 1
        page = await now.caller.get("/")
        assert page.status == 200
        assert 'data-model="parley"' in await page.text()


async def test_the_page_and_its_files_are_served() -> None:
    async with service() as now:
        page = await now.caller.get("/")
        assert page.status == 200
        assert "static/demo.js" in await page.text()
        script = await now.caller.get("/static/demo.js")
        assert script.status == 200
        assert "javascript" in script.content_type
        for path in ("/static/../templates/index.html", "/static/%2e%2e/__init__.py", "/static/"):
            assert (await now.caller.get(path)).status in (403, 404)


async def test_the_page_can_be_left_out() -> None:
    async with service(page=False) as now:
        assert await error(await now.caller.get("/")) == (404, "not_found", None)


async def test_models_are_listed_and_looked_up() -> None:
    async with service() as now:
        listed = await (await now.caller.get("/v1/models")).json()
        assert listed["object"] == "list"
        assert all(
            set(model) == {"id", "object", "created", "owned_by"} for model in listed["data"]
        )
        assert {"parley", "simulated"} <= {model["id"] for model in listed["data"]}
        assert (await now.caller.get("/v1/models/simulated")).status == 200
        none = await now.caller.get("/v1/models/none")
        assert await error(none) == (404, "model_not_found", "model")


async def test_metrics_are_in_prometheus_form() -> None:
    async with service() as now:
        response = await now.caller.get("/metrics")
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = await response.text()
        assert "parley_sessions_active" in text
        assert 'parley_engine{figure="sessions"} 0.0' in text


@pytest.mark.parametrize(
    ("query", "headers", "text", "expected"),
    [
        ("", SDP, "hello", (400, "invalid_sdp", "sdp")),
        ("", SDP, OFFER, (400, "invalid_sdp", "sdp")),
        ("", SDP, "\udcff", (400, "invalid_value", "sdp")),
        ("", SDP, "v=0\r\n" + "a=x\r\n" * 20_000, (413, "request_too_large", "sdp")),
        ("", SDP, "x" * 2_000_000, (413, "request_entity_too_large", None)),
        ("", {"Content-Type": "text/html"}, OFFER, (415, "invalid_content_type", None)),
        ("?dcid=65535", SDP, OFFER, (400, "invalid_value", "dcid")),
        ("?dcid=-1", SDP, OFFER, (400, "invalid_value", "dcid")),
        ("?model=none", SDP, OFFER, (404, "model_not_found", "model")),
    ],
)
async def test_a_call_that_cannot_be_is_refused_and_takes_no_place(
    query: str, headers: dict[str, str], text: str, expected: tuple[int, str, str | None]
) -> None:
    async with service() as now:
        body = BytesIO(text.encode("utf-8", "surrogateescape"))
        response = await now.caller.post("/v1/realtime/calls" + query, headers=headers, data=body)
        assert await error(response) == expected
        assert now.manager.sessions == 0


@pytest.mark.parametrize("session", ["{", "[]", '{"model": 1}', "[" * 100_000])
async def test_a_session_that_is_none_is_refused(session: str) -> None:
    async with service() as now:
        form = FormData(default_to_multipart=True)
        form.add_field("sdp", OFFER, content_type="application/sdp")
        form.add_field("session", session, content_type="application/json")
        response = await now.caller.post("/v1/realtime/calls", data=form)
        assert await error(response) == (400, "invalid_value", "session")


async def test_hanging_up_a_call_that_is_not_there_says_so() -> None:
    async with service() as now:
        calls = "/v1/realtime/calls/rtc_none"
        expected = (404, "call_not_found", "call_id")
        assert await error(await now.caller.post(f"{calls}/hangup")) == expected
        assert await error(await now.caller.delete(calls)) == expected
        sideband = await now.caller.get("/v1/realtime?call_id=rtc_none")
        assert await error(sideband) == expected


async def test_a_plain_request_for_a_socket_is_told_to_upgrade() -> None:
    async with service() as now:
        assert (await error(await now.caller.get("/v1/realtime")))[:2] == (426, "upgrade_required")


def test_media_goes_where_the_host_says() -> None:
    machine = [
        ("lo", "127.0.0.1"),
        ("eth0", "192.0.2.7"),
        ("docker0", "172.17.0.1"),
        ("eth0", "fe80::1"),
        ("eth0", "2001:db8::7"),
    ]
    assert media_addresses("127.0.0.1", (), machine) == ["127.0.0.1", "192.0.2.7", "2001:db8::7"]
    assert media_addresses("0.0.0.0", (), machine) == ["127.0.0.1", "192.0.2.7", "2001:db8::7"]
    assert media_addresses("192.0.2.7", (), machine) == ["192.0.2.7"]
    assert media_addresses("0.0.0.0", ("198.51.100.1",), machine) == ["198.51.100.1"]


def test_loopback_is_told_from_the_rest() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.0.2.7", "localhost.example", "")))
