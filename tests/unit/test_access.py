"""Who gets in, and who does not."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from server.access import (
    Access,
    Seen,
    access_of,
    allowed_headers,
    cross_origin,
    forwarded,
    guard,
    host_name,
    shown_keys,
)
from server.app import answer_errors
from server.errors import ServiceError
from server.settings import ServerSettings

LOCAL = Seen("/v1/realtime", "http", "localhost:8300", None, (), forwarded=False)
KEYLESS = Access(token=None)
KEYED = Access(token="right")


def refusal(access: Access, seen: Seen) -> tuple[int, str] | None:
    try:
        access.check(seen)
    except ServiceError as error:
        return error.status, error.code
    return None


@pytest.mark.parametrize("host", ["localhost:8300", "127.0.0.1:8300", "[::1]:8300", "LOCALHOST"])
def test_on_loopback_no_token_is_asked_for(host: str) -> None:
    assert refusal(KEYLESS, replace(LOCAL, host=host.lower())) is None


@pytest.mark.parametrize(
    "host", ["evil.example:8300", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::2]"]
)
def test_a_name_that_was_made_to_point_here_is_refused(host: str) -> None:
    seen = replace(LOCAL, host=host, origin=f"http://{host}")
    assert refusal(KEYLESS, seen) == (403, "host_not_allowed")


def test_a_configured_host_name_is_answered() -> None:
    access = Access(token=None, hosts=frozenset({"voice.example.org"}))
    assert refusal(access, replace(LOCAL, host="voice.example.org:8300")) is None


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost:3000", "https://localhost:8300", ""],
)
@pytest.mark.parametrize("access", [KEYLESS, KEYED])
def test_a_foreign_page_is_refused_with_or_without_a_token(access: Access, origin: str) -> None:
    seen = replace(LOCAL, origin=origin, keys=("right",))
    assert refusal(access, seen) == (403, "origin_not_allowed")


def test_our_own_page_and_an_allowed_one_may_call() -> None:
    own = replace(LOCAL, origin="http://localhost:8300")
    assert refusal(KEYLESS, own) is None
    other = replace(LOCAL, origin="https://site.example")
    assert refusal(replace(KEYLESS, origins=frozenset({"https://site.example"})), other) is None


def test_a_request_through_an_unknown_proxy_is_not_taken_for_a_local_one() -> None:
    assert refusal(KEYLESS, replace(LOCAL, forwarded=True)) == (403, "proxy_not_trusted")


def test_elsewhere_the_token_is_asked_for_and_any_way_of_showing_it_will_do() -> None:
    assert refusal(KEYED, LOCAL) == (401, "unauthorized")
    assert refusal(KEYED, replace(LOCAL, keys=("wrong", "righ", ""))) == (401, "unauthorized")
    assert refusal(KEYED, replace(LOCAL, keys=("wrong", "right"))) is None
    for path in ("/health", "/ready", "/static/demo.js"):
        assert refusal(KEYED, replace(LOCAL, path=path)) is None


def test_keys_are_read_from_every_place_a_client_can_put_them() -> None:
    protocols = "realtime, openai-insecure-api-key.one,openai-organization.x"
    assert shown_keys("Bearer two", protocols, "three") == ("two", "one", "three")
    assert shown_keys("Basic two", "realtime", None) == ()


@given(st.text(), st.text(), st.none() | st.text())
def test_no_header_breaks_the_check(authorization: str, protocols: str, cookie: str | None) -> None:
    KEYED.knows(shown_keys(authorization, protocols, cookie))


def test_the_last_forwarded_entry_is_the_proxys_own() -> None:
    assert forwarded("evil.example, voice.example") == "voice.example"
    assert forwarded("https") == "https"


@pytest.mark.parametrize(
    ("host", "name"), [("A:1", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("b", "b")]
)
def test_a_host_is_its_name_without_the_port(host: str, name: str) -> None:
    assert host_name(host) == name


def test_preflights_grant_what_stock_clients_send() -> None:
    asked = "Authorization, content-type, X-OpenAI-Agents-SDK, x-stainless-os, x-evil"
    granted = "authorization, content-type, x-openai-agents-sdk, x-stainless-os"
    assert allowed_headers(asked) == granted


def test_a_token_is_minted_where_callers_come_from_elsewhere() -> None:
    assert access_of(ServerSettings()).token is None
    for settings in (
        ServerSettings(host="0.0.0.0"),
        ServerSettings(host="192.0.2.7"),
        ServerSettings(trusted_proxies=("10.0.0.0/8",)),
    ):
        token = access_of(settings).token
        assert token is not None
        assert len(token) >= 32
        assert token != access_of(settings).token


async def client(access: Access) -> TestClient[web.Request, web.Application]:
    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application(middlewares=[answer_errors, guard(access)])
    app.on_response_prepare.append(cross_origin(access))
    app.add_routes([web.get("/", hello), web.post("/v1/realtime/calls", hello)])
    return TestClient(TestServer(app))


async def test_the_link_with_the_token_signs_the_page_in() -> None:
    async with await client(KEYED) as caller:
        refused = await caller.get("/")
        assert refused.status == 401
        assert (await refused.json())["error"]["code"] == "unauthorized"
        signed = await caller.get("/?token=right&lang=en", allow_redirects=False)
        assert (signed.status, signed.headers["Location"]) == (303, "/?lang=en")
        cookie = signed.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        caller.session.cookie_jar.clear()
        assert (await caller.get("/?token=wrong")).status == 401
        assert (await caller.get("/", headers={"Cookie": "parley_token=right"})).status == 200
        assert (await caller.get("/", headers={"Authorization": "Bearer right"})).status == 200


async def test_an_allowed_page_can_read_where_its_call_is() -> None:
    site = "https://site.example"
    async with await client(replace(KEYED, origins=frozenset({site}))) as caller:
        asked = {"Origin": site, "Access-Control-Request-Method": "POST"}
        before = await caller.options("/v1/realtime/calls", headers=asked)
        assert before.status == 204
        assert before.headers["Access-Control-Allow-Origin"] == site
        headers = {"Origin": site, "Authorization": "Bearer right"}
        after = await caller.post("/v1/realtime/calls", headers=headers)
        assert after.status == 200
        assert "Location" in after.headers["Access-Control-Expose-Headers"]
        other = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        refused = await caller.options("/v1/realtime/calls", headers=other)
        assert refused.status == 403
        assert "Access-Control-Allow-Origin" not in refused.headers


async def test_every_response_carries_the_security_headers() -> None:
    async with await client(KEYED) as caller:
        for path in ("/", "/nowhere"):
            headers = (await caller.get(path)).headers
            assert headers["Content-Security-Policy"].startswith("default-src 'self'")
            assert headers["Permissions-Policy"].startswith("microphone=(self)")
            assert headers["Referrer-Policy"] == "no-referrer"


async def test_forwarding_headers_are_believed_from_trusted_proxies_only() -> None:
    behind = {
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "voice.example",
        "Origin": "https://voice.example",
        "Authorization": "Bearer right",
    }
    async with await client(replace(KEYED, proxies=(ip_network("127.0.0.0/8"),))) as caller:
        assert (await caller.get("/", headers=behind)).status == 200
    async with await client(KEYED) as caller:
        assert (await caller.get("/", headers=behind)).status == 403
