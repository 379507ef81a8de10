"""Sessions over the network's own sockets: WebSocket and WebRTC, on loopback."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientWebSocketResponse, FormData, WSMsgType
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack

from server.audience import SUBSCRIBERS
from server.manager import Manager
from server.transport import socket
from server.transport.webrtc import stock
from server.transport.webrtc.rtp import Packet, serialize
from tests.service import Service, service


async def event(ws: ClientWebSocketResponse) -> dict[str, Any]:
    async with asyncio.timeout(5):
        message = await ws.receive()
    assert message.type is WSMsgType.TEXT, message
    return dict(json.loads(message.data))


async def closed(ws: ClientWebSocketResponse) -> int | None:
    async with asyncio.timeout(10):
        while not ws.closed:
            await ws.receive()
    return ws.close_code


async def gone(manager: Manager) -> None:
    async with asyncio.timeout(5):
        while True:
            if manager.sessions == 0:
                return
            await asyncio.sleep(0.01)


async def test_a_socket_is_a_session_until_it_closes() -> None:
    async with service() as now:
        async with now.caller.ws_connect(
            "/v1/realtime?model=gpt-realtime",
            protocols=("openai-insecure-api-key.secret", "realtime"),
        ) as ws:
            assert ws.protocol == "realtime"
            first = await event(ws)
            assert first["type"] == "session.created"
            assert first["session"]["model"] == "gpt-realtime"
            assert now.manager.sessions == 1
        await gone(now.manager)
        assert now.metrics.value("parley_sessions_total", transport="websocket", reason="hangup")


async def test_a_bad_event_is_answered_and_the_session_goes_on() -> None:
    async with service() as now, now.caller.ws_connect("/v1/realtime") as ws:
        await event(ws)
        await ws.send_str("{")
        assert (await event(ws))["type"] == "conversation.created"
        assert (await event(ws))["error"]["code"] == "invalid_event"
        await ws.send_bytes(b"sound")
        assert "binary" in (await event(ws))["error"]["message"]
        await ws.send_json({"type": "none", "event_id": "event_1"})
        assert (await event(ws))["error"]["event_id"] == "event_1"


async def test_a_caller_too_many_is_told_so_and_let_go() -> None:
    async with service(capacity=1) as now, now.caller.ws_connect("/v1/realtime") as first:
        await event(first)
        async with now.caller.ws_connect("/v1/realtime") as second:
            told = await event(second)
            assert (told["type"], told["error"]["code"]) == ("error", "server_busy")
            assert await closed(second) == 1013
        assert now.metrics.value("parley_refusals_total", code="server_busy") == 1


async def test_a_drain_tells_the_callers() -> None:
    async with service() as now, now.caller.ws_connect("/v1/realtime") as ws:
        await event(ws)
        await now.manager.drain(0.1)
        assert await closed(ws) == 1001
        response = await offered(now, await offer())
        assert response.status == 503


async def test_a_client_that_does_not_read_is_closed_and_holds_nobody_up(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(socket, "_QUEUED_EVENTS", 4)
    async with service() as now, now.caller.ws_connect("/v1/realtime") as ws:
        await event(ws)
        stay = next(iter(now.manager._stays.values()))
        ((subscriber, _),) = stay.audience._places
        for _ in range(20):
            subscriber.send(b"x" * 1_000_000)
        assert await closed(ws) == 1008
        await gone(now.manager)
        assert now.metrics.value("parley_slow_subscribers_total") == 1


class Caller:
    """A browser, as far as WebRTC goes."""

    def __init__(self, *, channel: bool = True) -> None:
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.connection.addTrack(AudioStreamTrack())
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        if channel:
            self.channel = self.connection.createDataChannel("oai-events")
            self.channel.on("message", lambda text: self.events.put_nowait(json.loads(text)))

    async def offer(self) -> str:
        stock.bind(self.connection, ["127.0.0.1"])
        await self.connection.setLocalDescription(await self.connection.createOffer())
        return str(self.connection.localDescription.sdp)

    async def answer(self, sdp: str) -> None:
        await self.connection.setRemoteDescription(RTCSessionDescription(sdp, "answer"))

    async def event(self) -> dict[str, Any]:
        async with asyncio.timeout(5):
            return await self.events.get()

    async def of_type(self, kind: str) -> dict[str, Any]:
        while True:
            if (came := await self.event())["type"] == kind:
                return came


async def offered(now: Service, sdp: str, query: str = "") -> ClientResponse:
    """What the service answers to an offer."""
    headers = {"Content-Type": "application/sdp"}
    return await now.caller.post(f"/v1/realtime/calls{query}", headers=headers, data=sdp)


async def offer() -> str:
    caller = Caller()
    sdp = await caller.offer()
    await caller.connection.close()
    return sdp


async def test_a_call_has_a_place_an_answer_and_an_end() -> None:
    async with service() as now:
        caller = Caller()
        response = await offered(now, await caller.offer(), query="?model=gpt-realtime")
        assert response.status == 201
        assert response.content_type == "application/sdp"
        location = response.headers["Location"]
        assert location.startswith("/v1/realtime/calls/rtc_")
        await caller.answer(await response.text())
        created = await caller.event()
        assert created["type"] == "session.created"
        assert created["session"]["model"] == "gpt-realtime"
        assert now.manager.find(location.rpartition("/")[2]) is not None
        assert (await now.caller.post(f"{location}/hangup")).status == 200
        assert now.manager.sessions == 0
        await caller.connection.close()


async def test_a_key_that_a_caller_presses_is_told_once() -> None:
    async with service() as now:
        caller = Caller()
        response = await offered(now, await caller.offer())
        answer = await response.text()
        kind = int(re.findall(r"a=rtpmap:(\d+) telephone-event/48000", answer)[0])
        await caller.answer(answer)
        await caller.of_type("session.created")
        sender: Any = caller.connection.getTransceivers()[0].sender
        for sequence_number, payload in enumerate(
            (b"\x0b\x0a\x03\xc0", *3 * [b"\x0b\x8a\x07\x80"])
        ):
            key = Packet(30_000 + sequence_number, 960, payload, kind, sender._ssrc + 1)
            await sender.transport._send_rtp(serialize(key))
        pressed = await caller.of_type("input_audio_buffer.dtmf_event_received")
        assert pressed["event"] == "#"
        await caller.connection.close()
        await gone(now.manager)


async def test_a_call_hung_up_before_it_connects_leaves_at_once() -> None:
    async with service() as now:
        response = await offered(now, await offer())
        before = len(asyncio.all_tasks())
        assert (await now.caller.delete(response.headers["Location"])).status == 200
        await asyncio.sleep(0.3)
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("call ")]
        assert len(asyncio.all_tasks()) < before


@pytest.mark.parametrize(
    "session",
    [
        {"type": "realtime", "model": "gpt-realtime", "instructions": "Be brief."},
        {"type": "transcription", "include": None},
    ],
)
async def test_a_form_brings_the_session_along(session: dict[str, Any]) -> None:
    async with service() as now:
        caller = Caller()
        form = FormData(default_to_multipart=True)
        form.add_field("sdp", await caller.offer())
        form.add_field("session", json.dumps(session))
        response = await now.caller.post("/v1/realtime/calls", data=form)
        assert response.status == 201
        await caller.answer(await response.text())
        created = await caller.of_type("session.created")
        assert session.items() <= created["session"].items()
        await caller.connection.close()
        await gone(now.manager)


async def test_a_sideband_hears_the_call_and_ends_with_it() -> None:
    async with service() as now:
        caller = Caller()
        response = await offered(now, await caller.offer())
        call_id = response.headers["Location"].rpartition("/")[2]
        await caller.answer(await response.text())
        await caller.event()
        async with now.caller.ws_connect(f"/v1/realtime?call_id={call_id}") as sideband:
            assert (await event(sideband))["type"] == "session.created"
            update = {"type": "session.update", "session": {"type": "realtime"}}
            await sideband.send_json(update)
            assert (await caller.of_type("session.updated"))["type"] == "session.updated"
            others = [
                await now.caller.ws_connect(f"/v1/realtime?call_id={call_id}")
                for _ in range(SUBSCRIBERS - 2)
            ]
            async with now.caller.get(f"/v1/realtime?call_id={call_id}") as refused:
                assert refused.status == 429
            await caller.connection.close()
            assert await closed(sideband) == 1000
            for other in others:
                await other.close()
        await gone(now.manager)


async def test_a_call_without_a_channel_goes_on_however_much_happens() -> None:
    async with service() as now:
        caller = Caller(channel=False)
        response = await offered(now, await caller.offer())
        call_id = response.headers["Location"].rpartition("/")[2]
        await caller.answer(await response.text())
        async with now.caller.ws_connect(f"/v1/realtime?call_id={call_id}") as sideband:
            for _ in range(300):
                await sideband.send_json({"type": "input_audio_buffer.clear"})
            for _ in range(300):
                assert (await event(sideband))["type"] != "error"
            assert now.manager.find(call_id) is not None
        await caller.connection.close()
        await gone(now.manager)


async def test_a_caller_who_is_gone_before_connecting_gives_the_place_back() -> None:
    async with service(capacity=1, limits={"setup": 0.3}) as now:
        response = await offered(now, await offer())
        assert response.status == 201
        busy = await offered(now, await offer())
        assert busy.status == 503
        assert int(busy.headers["Retry-After"]) >= 1
        assert (await busy.json())["error"]["code"] == "server_busy"
        await gone(now.manager)
        assert now.metrics.value(
            "parley_sessions_total", transport="webrtc", reason="never_connected"
        )
