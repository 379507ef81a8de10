"""What one caller may use, by key and by address, over sockets and calls."""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, WSMsgType

from server import keys
from tests.callers import call
from tests.service import Service, service

BEHIND: dict[str, Any] = {"trusted_proxies": ("127.0.0.0/8",), "token": "right"}
SDP = "v=0\r\nm=audio 9 X\r\na=ice-ufrag:abcd\r\na=ice-pwd:x\r\na=fingerprint:sha-256 AA\r\n"
SOCKET, CALLS = "/v1/realtime", "/v1/realtime/calls"


def sent_from(address: str) -> dict[str, str]:
    return {"X-Forwarded-For": address, "Authorization": "Bearer right"}


async def serves(now: Service, headers: dict[str, str]) -> bool:
    """Whether a socket gets a session; a refusal is the one that stock clients come again on."""
    async with now.caller.ws_connect(SOCKET, headers=headers) as ws:
        first = await ws.receive_json()
        if first["type"] == "error":
            assert first["error"]["code"] == "rate_limit_exceeded"
            assert (await ws.receive()).type is WSMsgType.CLOSE
            assert ws.close_code == 1013
        return bool(first["type"] == "session.created")


async def gone(now: Service) -> None:
    async with asyncio.timeout(15):
        while True:
            if not now.manager.sessions:
                return
            await asyncio.sleep(0.01)


async def test_sessions_at_once_are_limited_per_address() -> None:
    async with service(**BEHIND, limits={"caller_sessions": 1}) as now:
        here, there = sent_from("192.0.2.1"), sent_from("192.0.2.2")
        async with now.caller.ws_connect(SOCKET, headers=here) as ws:
            assert (await ws.receive_json())["type"] == "session.created"
            assert not await serves(now, here)
            assert await serves(now, there)
            sdp = here | {"Content-Type": "application/sdp"}
            refused = await now.caller.post(CALLS, headers=sdp, data=SDP)
            assert refused.status == 429
            assert (await refused.json())["error"]["code"] == "rate_limit_exceeded"
            assert int(refused.headers["Retry-After"]) >= 1
        await gone(now)
        assert await serves(now, here)
        assert now.metrics.value("parley_refusals_total", code="rate_limit_exceeded") == 2


async def test_a_reconnect_resets_no_limit() -> None:
    async with service(**BEHIND, limits={"caller_starts": 3}) as now:
        for _ in range(3):
            assert await serves(now, sent_from("192.0.2.1"))
        assert not await serves(now, sent_from("192.0.2.1"))
        assert not await serves(now, sent_from("198.51.100.1, 192.0.2.1"))
        assert await serves(now, sent_from("192.0.2.2"))


async def test_a_key_is_limited_wherever_it_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    shown = [keys.create(path, "", 0)[1] for _ in range(2)]
    first, second = ({"Authorization": f"Bearer {key}"} for key in shown)
    limits = {"caller_starts": 2}
    async with service(**BEHIND, keys_file=path, limits=limits) as now:
        for address in ("192.0.2.1", "192.0.2.2"):
            assert await serves(now, first | {"X-Forwarded-For": address})
        assert not await serves(now, first | {"X-Forwarded-For": "192.0.2.3"})
        assert await serves(now, second | {"X-Forwarded-For": "192.0.2.3"})
        async with now.caller.post("/v1/realtime/client_secrets", headers=first) as answer:
            secret = (await answer.json())["value"]
        assert not await serves(now, {"Authorization": secret, "X-Forwarded-For": "192.0.2.4"})


async def test_on_this_machine_callers_without_a_key_are_not_limited() -> None:
    async with service(limits={"caller_sessions": 1, "caller_starts": 1}) as now:
        for _ in range(5):
            assert await serves(now, {})


async def test_a_socket_that_sends_too_much_sound_is_read_more_slowly_and_nothing_is_lost() -> None:
    async with service(**BEHIND, limits={"caller_audio": 60}) as now:
        headers = sent_from("192.0.2.1")
        async with now.caller.ws_connect(SOCKET, headers=headers) as ws:
            audio = {"input": {"turn_detection": None}}
            session = {"type": "realtime", "audio": audio}
            await ws.send_json({"type": "session.update", "session": session})
            began = time.monotonic()
            for _ in range(62):
                sound = base64.b64encode(bytes(48_000)).decode()
                await ws.send_json({"type": "input_audio_buffer.append", "audio": sound})
            await ws.send_json({"type": "conversation.item.delete", "item_id": "none"})
            while (await ws.receive_json())["type"] != "error":
                pass
            assert time.monotonic() - began > 1.5
            (stay,) = now.manager._stays.values()
            heard = stay.session.heard.end / stay.session.info.input_rate
            assert heard == pytest.approx(62, abs=0.01)
        await gone(now)
        assert now.metrics.value("parley_dropped_samples_total") == 0


async def test_the_sound_of_a_call_is_counted_and_keeps_others_from_starting(
    tmp_path: Path,
) -> None:
    path = tmp_path / "keys.json"
    _, key = keys.create(path, "", 0)
    headers = {"Authorization": f"Bearer {key}"}

    async def post(url: str, offer: str) -> tuple[str, str]:
        sdp = headers | {"Content-Type": "application/sdp"}
        async with ClientSession(headers=sdp) as web, web.post(url, data=offer) as answer:
            assert answer.status == 201
            return await answer.text(), answer.headers["Location"]

    async def called(url: str, offer: str) -> tuple[str, str]:
        return await post(url + CALLS.removeprefix("/"), offer)

    async with service(keys_file=path, limits={"caller_audio": 1}) as now:
        async with call(str(now.caller.make_url("/")), called) as caller:
            for _ in range(60):
                if not await serves(now, headers):
                    break
                await asyncio.sleep(0.2)
            await caller.update(instructions="Go on.")
        sdp = headers | {"Content-Type": "application/sdp"}
        assert (await now.caller.post(CALLS, headers=sdp, data=SDP)).status == 429
