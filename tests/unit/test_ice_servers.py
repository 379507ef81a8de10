"""The STUN and TURN servers that callers are told, and their logins."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import Any

import pytest
from pydantic import ValidationError

from server.settings import SettingsProblem, load, shown
from server.transport.ice_servers import rtc_ice_servers
from server.webrtc_settings import IceServer
from tests.service import service

SIGNED: dict[str, Any] = {"urls": ["turn:t.example:3478", "turns:t.example"], "secret": "s3cret"}
FIXED: dict[str, Any] = {"urls": ["turn:f.example"], "username": "me", "credential": "pass"}
STUN: dict[str, Any] = {"urls": ["stun:s.example"]}


def test_a_login_says_when_it_expires_and_is_signed_with_the_secret() -> None:
    (told,) = rtc_ice_servers([IceServer(**SIGNED, lifetime=600)], 1_000_000.9)
    assert told["urls"] == SIGNED["urls"]
    assert told["username"] == "1000600:parley"
    signature = hmac.new(b"s3cret", b"1000600:parley", hashlib.sha1).digest()
    assert base64.b64decode(told["credential"]) == signature


def test_what_the_operator_set_is_told_as_it_stands() -> None:
    assert rtc_ice_servers([IceServer(**FIXED), IceServer(**STUN)], 0) == [FIXED, STUN]


async def test_a_caller_is_told_what_an_rtc_configuration_holds() -> None:
    webrtc = {"ice_servers": [SIGNED | {"lifetime": 600}, STUN], "port": 0}
    async with service(webrtc=webrtc) as now:
        answer = await now.caller.get("/v1/ice-servers")
        assert answer.headers["Cache-Control"] == "no-store"
        told = await answer.json()
        assert told["ttl"] == 600
        signed, stun = told["iceServers"]
        assert stun == STUN
        expires = int(signed["username"].partition(":")[0])
        assert abs(expires - time.time() - 600) < 60


async def test_without_servers_a_caller_is_told_none() -> None:
    async with service() as now:
        assert (await (await now.caller.get("/v1/ice-servers")).json())["iceServers"] == []


async def test_a_client_secret_opens_it_and_nobody_reads_it_without_a_key() -> None:
    webrtc = {"ice_servers": [SIGNED], "port": 0}
    async with service(webrtc=webrtc, token="right") as now:
        assert (await now.caller.get("/v1/ice-servers")).status == 401
        right = {"Authorization": "Bearer right"}
        made = await now.caller.post("/v1/realtime/client_secrets", headers=right, json={})
        secret = (await made.json())["value"]
        for headers in (right, {"Authorization": f"Bearer {secret}"}):
            told = await (await now.caller.get("/v1/ice-servers", headers=headers)).json()
            assert len(told["iceServers"]) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"urls": []},
        {"urls": ["http://t.example"]},
        {"urls": ["turn:"]},
        {"urls": ["turn:me@t.example"], "secret": "s"},
        {"urls": ["turn:t.example?transport=sctp"], "secret": "s"},
        {"urls": ["turn:t.example"]},
        {"urls": ["turn:t.example"], "username": "me"},
        FIXED | {"secret": "s"},
    ],
)
def test_what_no_browser_could_use_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        IceServer(**wrong)


def test_a_server_in_the_file_is_read_and_its_secrets_are_not_shown(tmp_path: Any) -> None:
    path = tmp_path / "parley.toml"
    path.write_text('[[webrtc.ice_servers]]\nurls = ["turn:t.example"]\nsecret = "canary"\n')
    settings = load([f"--config={path}"])
    assert settings.webrtc.ice_servers[0].secret.get_secret_value() == "canary"
    assert "canary" not in str(shown(settings))
    path.write_text('[[webrtc.ice_servers]]\nurls = ["turn:t.example"]\n')
    with pytest.raises(SettingsProblem, match=r"^webrtc\.ice_servers\.0: expected a secret"):
        load([f"--config={path}"])
