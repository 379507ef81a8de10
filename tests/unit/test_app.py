"""What lies at each path, and how errors leave it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from aiohttp import FormData, WSServerHandshakeError

from engine.contract import EngineUnavailable
from engine.simulated import Simulated
from server import keys
from server.access import OPEN, OPEN_HERE
from tests.service import service

OFFER = "v=0\r\nm=audio 9 X\r\na=ice-ufrag:abcd\r\na=ice-pwd:x\r\na=fingerprint:sha-256 AA\r\n"
SDP = {"Content-Type": "application/sdp"}


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
    "part",
    [
        b"\r\n\r\nv=0",
        b'Content-Disposition: form-data; name="s\x0ep"\r\n\r\nv=0',
        b'Content-Disposition: form-data; name="sdp"\r\nContent-Type: a/b; charset=x\r\n\r\nv=0',
        b'Content-Disposition: form-data; name="sdp"\r\nContent-Encoding: deflate\r\n\r\nv=0',
        b'Content-Disposition: form-data; name="sdp"\r\nContent-Transfer-Encoding: x\r\n\r\nv=0',
    ],
)
async def test_a_form_that_is_not_well_formed_is_refused(part: bytes) -> None:
    async with service() as now:
        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        body = BytesIO(b"--b\r\n" + part + b"\r\n--b--\r\n")
        response = await now.caller.post("/v1/realtime/calls", headers=kind, data=body)
        assert (await error(response))[0] == 400
        assert now.manager.sessions == 0


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


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ("{", "session"),
        ("[]", "session"),
        ("[" * 100_000, "session"),
        ('{"tracing": ' + '{"a":' * 500 + "1" + "}" * 501, "session"),
        ('{"tools": [' + "[]," * 20_000 + "1]}", "session"),
        ('{"model": 1}', "session.model"),
        ('{"model": null}', "session.model"),
    ],
    ids=["no JSON", "no object", "too deep", "an object too deep", "too many", "number", "null"],
)
async def test_a_session_that_is_none_is_refused(session: str, param: str) -> None:
    async with service() as now:
        form = FormData(default_to_multipart=True)
        form.add_field("sdp", OFFER, content_type="application/sdp")
        form.add_field("session", session, content_type="application/json")
        response = await now.caller.post("/v1/realtime/calls", data=form)
        assert await error(response) == (400, "invalid_value", param)


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


ELSEWHERE = {"X-Forwarded-For": "192.0.2.1"}
DEEDS = ("attach", "hangup", "fork", "accept", "reject", "refer", "content")
PROXIED: dict[str, Any] = {"trusted_proxies": ("127.0.0.0/8",), "token": "right"}


async def test_every_route_is_listed_as_open_or_asks_for_a_key() -> None:
    async with service(**PROXIED) as now:
        routes = now.caller.app.router.routes() if now.caller.app else ()
        asked = set()
        for route in routes:
            assert route.resource is not None
            path = route.resource.canonical
            asked.add(path)
            address = path.format(model="parley", call_id="rtc_1", session_id="sess_1")
            answer = await now.caller.request(route.method, address, headers=ELSEWHERE)
            assert (answer.status != 401) is (path in OPEN), (route.method, path)
        assert asked == OPEN | OPEN_HERE | {
            "/",
            "/v1/models",
            "/v1/models/{model}",
            "/v1/ice-servers",
            "/v1/realtime",
            "/v1/realtime/client_secrets",
            "/v1/realtime/calls",
            "/v1/realtime/calls/{call_id}",
            "/v1/realtime/calls/{call_id}/hangup",
            "/v1/live/sessions",
            *(f"/v1/live/sessions/{{session_id}}/{deed}" for deed in DEEDS),
        }


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer wrong"},
        {"Authorization": "wrong"},
        {"X-Api-Key": "wrong"},
        {"api-key": "wrong"},
        {"Sec-WebSocket-Protocol": "realtime, openai-insecure-api-key.wrong"},
        {"Cookie": "parley_token=wrong"},
        {},
    ],
)
async def test_an_unauthenticated_socket_is_refused_before_the_upgrade(
    headers: dict[str, str],
) -> None:
    async with service(token="right") as now:
        for path in ("/v1/realtime", "/v1/realtime?call_id=rtc_1", "/v1/live/sessions"):
            with pytest.raises(WSServerHandshakeError) as refused:
                await now.caller.ws_connect(path, headers=headers)
            assert refused.value.status == 401
        offer = await now.caller.post("/v1/realtime/calls", headers=headers | SDP, data=OFFER)
        assert await error(offer) == (401, "unauthorized", None)
        assert offer.headers["WWW-Authenticate"] == "Bearer"
        right = {name: value.replace("wrong", "right") for name, value in headers.items()}
        if right:
            async with now.caller.ws_connect("/v1/realtime", headers=right) as ws:
                assert (await ws.receive_json())["type"] == "session.created"


async def test_cors_does_not_cover_sockets_so_they_and_offers_are_checked_for_their_origin() -> (
    None
):
    async with service(token="right", allowed_origins=("https://site.example",)) as now:
        key = {"Authorization": "Bearer right"}
        foreign = key | {"Origin": "https://evil.example"}
        with pytest.raises(WSServerHandshakeError) as refused:
            await now.caller.ws_connect("/v1/realtime", headers=foreign)
        assert refused.value.status == 403
        offer = await now.caller.post("/v1/realtime/calls", headers=foreign | SDP, data=OFFER)
        assert await error(offer) == (403, "origin_not_allowed", None)
        allowed = key | {"Origin": "https://site.example"}
        async with now.caller.ws_connect("/v1/realtime", headers=allowed) as ws:
            assert (await ws.receive_json())["type"] == "session.created"


async def test_a_page_elsewhere_may_send_what_agents_js_sends() -> None:
    async with service(token="right", allowed_origins=("https://site.example",)) as now:
        for path in ("/v1/realtime/calls", "/v1/realtime/client_secrets"):
            asked = {
                "Origin": "https://site.example",
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type,x-openai-agents-sdk",
            }
            answer = await now.caller.options(path, headers=asked)
            assert answer.status == 204
            granted = answer.headers["Access-Control-Allow-Headers"]
            assert granted == "authorization, content-type, x-openai-agents-sdk"
            assert answer.headers["Access-Control-Allow-Origin"] == "https://site.example"


async def test_the_page_opens_by_its_link_with_the_token_or_with_a_key(tmp_path: Path) -> None:
    _, key = keys.create(tmp_path / "keys.json", "", 0)
    async with service(keys_file=tmp_path / "keys.json") as now:
        assert now.access.token is not None
        for shown in (now.access.token, key):
            now.caller.session.cookie_jar.clear()
            assert (await now.caller.get("/")).status == 401
            assert (await now.caller.get(f"/?token={shown}")).status == 200
            cookie = {"Cookie": f"parley_token={shown}"}
            async with now.caller.ws_connect("/v1/realtime", headers=cookie) as ws:
                assert (await ws.receive_json())["type"] == "session.created"
