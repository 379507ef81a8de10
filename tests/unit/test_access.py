"""Who gets in, and who does not."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from server import keys
from server.access import NOT_FOR_SECRETS, Access, access_of, guard
from server.answering import answer_errors
from server.caller import TOKEN, Caller
from server.client_secrets import ClientSecrets
from server.cors import allowed_headers, cross_origin
from server.errors import ServiceError
from server.keys import Keys
from server.seen import Seen
from server.settings import ServerSettings

LOCAL = Seen("/v1/realtime", "http", "localhost:8300", None, (), "", forwarded=False)
REMOTE = replace(LOCAL, host="voice.example.org", address="192.0.2.1")
KEYLESS = Access(token=None, keys=Keys(Path("/nonexistent/keys.json")))
KEYED = replace(KEYLESS, token="right")


def refusal(access: Access, seen: Seen) -> tuple[int, str] | None:
    try:
        access.check(seen, 0)
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
    access = replace(KEYLESS, hosts=frozenset({"voice.example.org"}))
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


def test_elsewhere_a_key_is_asked_for_and_any_way_of_showing_it_will_do() -> None:
    assert refusal(KEYED, LOCAL) == (401, "unauthorized")
    assert refusal(KEYED, replace(LOCAL, keys=("wrong", "righ", ""))) == (401, "unauthorized")
    assert refusal(KEYED, replace(LOCAL, keys=("wrong", "right"))) is None
    for route in ("/health", "/ready", "/static"):
        assert refusal(KEYED, replace(LOCAL, route=route)) is None
    for route in ("/", "", "/healthy", "/v1/models"):
        assert refusal(KEYED, replace(LOCAL, route=route)) == (401, "unauthorized")


def test_figures_are_for_programs_on_this_machine_and_for_keys() -> None:
    here = replace(LOCAL, route="/metrics")
    assert refusal(KEYED, here) is None
    assert refusal(KEYED, replace(here, host="evil.example")) == (403, "host_not_allowed")
    for other in (replace(here, address="192.0.2.1"), replace(here, forwarded=True)):
        assert refusal(KEYED, other) == (401, "unauthorized")
        assert refusal(KEYED, replace(other, keys=("right",))) is None


def test_whoever_shows_a_key_is_known_by_its_id(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    key, secret = keys.create(path, "", 0)
    access = replace(KEYED, keys=Keys(path))
    assert access.check(replace(REMOTE, keys=(secret,)), 0) == Caller(key.id, "192.0.2.1")
    assert access.check(replace(REMOTE, keys=("right",)), 0) == Caller(TOKEN, "192.0.2.1")
    keys.revoke(path, key.id)
    assert refusal(access, replace(REMOTE, keys=(secret,))) == (401, "unauthorized")


def test_the_first_key_locks_a_server_on_loopback_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    access = replace(KEYLESS, keys=Keys(path))
    assert refusal(access, LOCAL) is None
    _, secret = keys.create(path, "", 0)
    assert refusal(access, LOCAL) == (401, "unauthorized")
    assert refusal(access, replace(LOCAL, keys=(secret,))) is None


def test_a_client_secret_from_before_the_first_key_opens_nothing_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    access = replace(KEYLESS, keys=Keys(path), secrets=ClientSecrets())
    secret = access.secrets.make("", b"{}", expires_at=10, now=0)
    shown = replace(LOCAL, keys=(secret or "",))
    assert refusal(access, shown) is None
    keys.create(path, "", 0)
    assert refusal(access, shown) == (401, "unauthorized")


def test_a_client_secret_starts_sessions_and_makes_no_secrets(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    key, _ = keys.create(path, "", 0)
    access = replace(KEYED, keys=Keys(path), secrets=ClientSecrets())
    secret = access.secrets.make(key.id, b"{}", expires_at=10, now=0)
    assert secret is not None
    shown = replace(REMOTE, keys=(secret,))
    caller = access.check(shown, 5)
    assert (caller.key, caller.secret) == (key.id, access.secrets.find(secret, 5))
    for route in NOT_FOR_SECRETS:
        with pytest.raises(ServiceError) as refused:
            access.check(replace(shown, route=route), 5)
        assert (refused.value.status, refused.value.code) == (403, "client_secret_not_allowed")
    with pytest.raises(ServiceError, match="expired"):
        access.check(shown, 10)
    keys.revoke(path, key.id)
    with pytest.raises(ServiceError, match="not known"):
        access.check(shown, 5)


def test_a_client_secret_that_is_not_known_is_refused_where_no_key_is_needed() -> None:
    assert refusal(KEYLESS, replace(LOCAL, keys=("anything",))) is None
    assert refusal(KEYLESS, replace(LOCAL, keys=("ek_expired",))) == (401, "unauthorized")


def test_a_call_is_reached_by_its_key_and_of_secrets_by_the_one_that_started_it() -> None:
    made = ClientSecrets()
    values = [made.make("key_a", b"{}", 10, 0) for _ in range(2)]
    one, other = (Caller("key_a", "", made.find(value or "", 0)) for value in values)
    key, stranger = Caller("key_a", "192.0.2.1"), Caller("key_b")
    assert key.reaches(one) and key.reaches(other) and key.reaches(Caller("key_a"))
    assert one.reaches(one) and not one.reaches(other) and not one.reaches(key)
    assert not any(stranger.reaches(owner) for owner in (one, key, Caller(), Caller(TOKEN)))


def test_preflights_grant_what_stock_clients_send() -> None:
    asked = "Authorization, content-type, X-Api-Key, X-OpenAI-Agents-SDK, x-stainless-os, x-evil"
    granted = "authorization, content-type, x-api-key, x-openai-agents-sdk, x-stainless-os"
    assert allowed_headers(asked) == granted


def test_what_a_request_asks_for_goes_over_what_its_secret_does() -> None:
    made = ClientSecrets()
    bound = b'{"type": "realtime", "audio": {"input": {"turn_detection": null}, "output": {}}}'
    caller = Caller("", "", made.find(made.make("", bound, 10, 0) or "", 0))
    own = {"model": "m", "audio": {"output": {"voice": "echo"}}}
    assert caller.asking(own) == {
        "type": "realtime",
        "model": "m",
        "audio": {"input": {"turn_detection": None}, "output": {"voice": "echo"}},
    }
    assert caller.asking(None) == msgspec.json.decode(bound)
    assert Caller().asking(own) == own
    assert Caller().asking(None) is None


def test_a_token_is_minted_where_callers_come_from_elsewhere_or_need_a_key(
    tmp_path: Path,
) -> None:
    path = tmp_path / "keys.json"
    keys.create(path, "", 0)
    assert access_of(ServerSettings()).token is None
    for settings in (
        ServerSettings(host="0.0.0.0"),
        ServerSettings(host="192.0.2.7"),
        ServerSettings(trusted_proxies=("10.0.0.0/8",)),
        ServerSettings(keys_file=path),
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
        shown = await caller.get("/", headers={"Accept": "text/html,*/*;q=0.8"})
        assert (shown.status, shown.content_type) == (401, "text/html")
        assert "Open the whole link" in await shown.text()
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
