"""Calls over WebRTC, where other servers went wrong (docs/pitfalls.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urljoin

import numpy as np
import pytest
from aiohttp import ClientSession, FormData
from aiortc import RTCConfiguration, RTCPeerConnection
from aiortc.mediastreams import AudioStreamTrack

from server.transport.webrtc import stock
from tests.callers import TRACK_RATE, Caller, call
from tests.network.simulated import free, simulated
from tests.serving import Server

FOUR_SECONDS = "nine more " * 10
"""Less than the engine runs ahead: it is made at once, and heard for as long as it is written."""
LONG = "wonderful " * 60
SDP = {"Content-Type": "application/sdp"}
BOUNDARY = "x-boundary"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with simulated(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


async def sounding(caller: Caller, text: str) -> str:
    """Has ``text`` spoken; returns its response once a second of it was heard."""
    await caller.write(text)
    await caller.send("response.create")
    response = str((await caller.event("output_audio_buffer.started"))["response_id"])
    before = audible(caller)
    async with asyncio.timeout(15):
        while audible(caller) < before + 1.0:  # noqa: ASYNC110 - a track has no such event
            await asyncio.sleep(0.05)
    return response


def audible(caller: Caller, since: int = 0) -> float:
    """Seconds of sound that came on the track behind the first ``since`` frames."""
    frames = [pcm for _, pcm in caller.heard[since:]]
    return float(sum(len(pcm) for pcm in frames if np.abs(pcm).max() > 0.01) / TRACK_RATE)


async def falls_silent(caller: Caller) -> None:
    """What is heard from here on is at most what was on its way."""
    since = len(caller.heard)
    await asyncio.sleep(1.5)
    assert audible(caller, since) < 0.4


async def test_cleared_sound_is_never_heard_however_much_was_to_come(server: Server) -> None:
    """P18: its response ends with it; the next begins with its own first sound."""
    async with call(server.url) as caller:
        response = await sounding(caller, LONG)
        await caller.send("output_audio_buffer.clear")
        done = await caller.done()
        assert (done["id"], done["status"]) == (response, "cancelled")
        assert (await caller.event("output_audio_buffer.cleared"))["response_id"] == response
        cut = await caller.event("conversation.item.truncated")
        assert 500 <= cut["audio_end_ms"] <= 10_000
        await falls_silent(caller)
        since = len(caller.heard)
        await caller.write("short")
        await caller.send("response.create")
        await caller.event("output_audio_buffer.stopped")
        await asyncio.sleep(0.5)
        assert audible(caller, since) == pytest.approx(5 * 0.04, abs=0.15)


async def test_sound_can_be_cleared_when_its_response_is_long_done(server: Server) -> None:
    """P19: and clearing is answered when there is nothing to clear, too."""
    async with call(server.url) as caller:
        await caller.send("output_audio_buffer.clear")
        await caller.event("output_audio_buffer.cleared")
        response = await sounding(caller, FOUR_SECONDS)
        assert caller.strict.types.count("response.done") == 1
        await caller.send("response.cancel")
        error = (await caller.event("error"))["error"]
        assert error["code"] == "response_cancel_not_active"
        await caller.send("output_audio_buffer.clear")
        assert (await caller.event("output_audio_buffer.cleared"))["response_id"] == response
        await falls_silent(caller)
        await caller.send("output_audio_buffer.clear")
        assert (await caller.event("output_audio_buffer.cleared"))["response_id"] == response
        assert "output_audio_buffer.stopped" not in caller.strict.types


async def test_sound_is_said_to_have_stopped_when_it_was_heard_to_its_end(server: Server) -> None:
    """P20."""
    async with call(server.url) as caller:
        await caller.write(FOUR_SECONDS)
        await caller.send("response.create")
        await caller.event("output_audio_buffer.started")
        started = caller.times[caller.strict.types.index("output_audio_buffer.started")]
        done = await caller.done()
        stopped = await caller.event("output_audio_buffer.stopped")
        assert stopped["response_id"] == done["id"]
        at = caller.times[caller.strict.types.index("output_audio_buffer.stopped")]
        assert at - started > len(FOUR_SECONDS) * 0.04 - 0.3


@asynccontextmanager
async def offered() -> AsyncIterator[tuple[RTCPeerConnection, str]]:
    """A connection and its offer."""
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connection.addTrack(AudioStreamTrack())
    connection.createDataChannel("oai-events")
    stock.bind(connection, ["127.0.0.1"])
    await connection.setLocalDescription(await connection.createOffer())
    try:
        yield connection, connection.localDescription.sdp
    finally:
        await connection.close()


async def test_a_call_is_known_by_its_id_from_its_answer_on_and_no_other_is(
    server: Server,
) -> None:
    """P22: before the caller has even read the answer."""
    async with offered() as (_, sdp), ClientSession(server.url) as web:
        async with web.post("/v1/realtime/calls", data=sdp, headers=SDP) as answer:
            call_id = answer.headers["Location"].rpartition("/")[2]
        async with web.ws_connect(f"/v1/realtime?call_id={call_id}") as sideband:
            assert (await sideband.receive_json(timeout=15))["type"] == "session.created"
        async with web.get("/v1/realtime?call_id=rtc_none") as nobody:
            assert nobody.status == 404
        async with web.delete(f"/v1/realtime/calls/{call_id}") as ended:
            assert ended.status == 200
        async with web.get(f"/v1/realtime?call_id={call_id}") as nobody:
            assert nobody.status == 404
    await free(server, 15)


def typed(sdp: str) -> tuple[Any, dict[str, str]]:
    """As the SDKs of OpenAI send it."""
    form = FormData(default_to_multipart=True)
    form.add_field("sdp", sdp, content_type="application/sdp")
    form.add_field("session", '{"type":"realtime"}', content_type="application/json")
    return form, {}


def untyped(sdp: str) -> tuple[Any, dict[str, str]]:
    """As a browser sends a ``FormData`` of two strings."""
    fields = (("sdp", sdp), ("session", '{"type":"realtime"}'))
    parts = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields
    )
    body = "".join(parts) + f"--{BOUNDARY}--\r\n"
    return body.encode(), {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def raw(sdp: str) -> tuple[Any, dict[str, str]]:
    """As agents-js sends it."""
    return sdp, SDP


@pytest.mark.parametrize("form", [raw, typed, untyped])
async def test_an_offer_is_taken_in_any_form_that_clients_send(server: Server, form: Any) -> None:
    """P25."""
    async with offered() as (_, sdp), ClientSession(server.url) as web:
        body, headers = form(sdp)
        async with web.post("/v1/realtime/calls", data=body, headers=headers) as answer:
            assert answer.status == 201, await answer.text()
            assert answer.content_type == "application/sdp"
        async with web.delete(answer.headers["Location"]) as ended:
            assert ended.status == 200
    await free(server, 15)


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "audio/wav"])
async def test_an_offer_in_another_form_is_refused_by_its_type(server: Server, kind: str) -> None:
    """P25."""
    async with ClientSession() as web:
        calls = urljoin(server.url, "v1/realtime/calls")
        async with web.post(calls, data=b"v=0", headers={"Content-Type": kind}) as answer:
            assert answer.status == 415


async def test_an_event_too_long_for_the_caller_is_told_and_the_call_goes_on(
    server: Server,
) -> None:
    """P40: silence in its place left a turn without an answer."""
    async with call(server.url) as caller:
        await caller.update(instructions="x" * 60_000)
        tool = {"type": "function", "name": "lamp", "description": "x" * 42_000}
        session = {"type": "realtime", "tools": 5 * [tool]}
        await caller.send("session.update", session=session)
        error = (await caller.event("error"))["error"]
        assert (error["type"], error["code"]) == ("server_error", "event_too_large")
        assert "session.updated" in error["message"]
        await caller.write("short")
        await caller.send("response.create")
        assert (await caller.done())["status"] == "completed"
