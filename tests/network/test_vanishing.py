"""Callers who vanish, at every step of a call: their place is free again, by a stated time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urljoin

import pytest
from aiohttp import ClientSession
from aiortc import RTCConfiguration, RTCPeerConnection
from aiortc.mediastreams import AudioStreamTrack

from tests.callers import call, connect, socket
from tests.network.bare import UPGRADE, connection, frame, hang, unplug, upgraded
from tests.network.simulated import ends, free, simulated, until
from tests.serving import Server

LOST = 10.0
"""Seconds until the place of a caller who vanished without a word is free."""
SETUP, IDLE = 2.0, 4.0
"""The limits of the server under test, in seconds."""

OFFER = (
    "POST /v1/realtime/calls HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    "Content-Type: application/sdp\r\nContent-Length: 2000\r\n\r\nv=0\r\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("server") / "log"
    limits = ("--limits.setup", str(SETUP), "--limits.idle", str(IDLE), "--limits.grace", "0")
    with simulated(log, *limits, "--capacity", "2") as running:
        yield running


async def works(server: Server) -> None:
    """A new caller is served."""
    async with socket(server.url):
        pass


@pytest.mark.parametrize(
    "said", ["", UPGRADE[:60], UPGRADE[:-2]], ids=["nothing", "half a line", "no end of headers"]
)
async def test_half_a_request_takes_no_place(server: Server, said: str) -> None:
    async with connection(server.url, said), connection(server.url, said):
        await asyncio.sleep(0.2)
        assert server.metric("parley_sessions_active") == 0
        await works(server)
    await free(server, 1.0)


async def test_half_an_offer_takes_no_place(server: Server) -> None:
    async with connection(server.url, OFFER):
        await asyncio.sleep(0.2)
        assert server.metric("parley_sessions_active") == 0
    async with connection(server.url, OFFER) as (reader, _), asyncio.timeout(SETUP + 1.0):
        assert b" 408 " in await reader.readline()
    await works(server)
    assert "error" not in {line["level"] for line in server.log_lines()}


async def test_an_upgrade_and_then_nothing_is_told_when_it_has_been_idle_too_long(
    server: Server,
) -> None:
    before = server.metric("parley_sessions_total", reason="idle_timeout")
    async with socket(server.url) as caller:
        error = (await caller.event("error", IDLE + 1.0))["error"]
        assert error["code"] == "idle_timeout"
        assert await caller.closed == 1000
        await free(server, 1.0)
    assert server.metric("parley_sessions_total", reason="idle_timeout") == before + 1
    assert ends(server)[-1] == "idle_timeout"


@pytest.mark.parametrize("part", [0, 1, 40], ids=["no frame", "half a head", "half an append"])
async def test_a_client_killed_after_the_upgrade_is_gone_at_once(server: Server, part: int) -> None:
    before = server.metric("parley_sessions_total", reason="peer_lost")
    async with upgraded(server.url) as writer:
        writer.write(frame('{"type":"input_audio_buffer.append","audio":"' + 400 * "A")[:part])
        await writer.drain()
        assert server.metric("parley_sessions_active") == 1
    await free(server, 1.0)
    assert server.metric("parley_sessions_total", reason="peer_lost") == before + 1
    assert ends(server)[-1] == "peer_lost"


async def test_an_offer_and_then_nothing_is_given_up_after_the_setup_time(server: Server) -> None:
    before = server.metric("parley_sessions_total", reason="never_connected")
    caller = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    caller.addTrack(AudioStreamTrack())
    caller.createDataChannel("oai-events")
    await caller.setLocalDescription(await caller.createOffer())
    sdp = caller.localDescription.sdp
    await caller.close()
    headers = {"Content-Type": "application/sdp"}
    calls = urljoin(server.url, "v1/realtime/calls")
    async with ClientSession() as web, web.post(calls, data=sdp, headers=headers) as answer:
        assert answer.status == 201
    assert server.metric("parley_sessions_active") == 1
    await free(server, SETUP + 1.0)
    assert server.metric("parley_sessions_total", reason="never_connected") == before + 1
    assert ends(server)[-1] == "never_connected"


async def test_a_client_killed_before_its_channel_opened_is_given_up_after_the_setup_time(
    server: Server,
) -> None:
    before = server.metric("parley_sessions_total", reason="never_connected")
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    peer.addTrack(AudioStreamTrack())
    peer.createDataChannel("oai-events")
    connected = asyncio.Event()

    def on_state() -> None:
        if peer.iceConnectionState == "completed":
            hang(peer)
            connected.set()

    peer.on("iceconnectionstatechange", on_state)
    await connect(peer, server.url)
    async with asyncio.timeout(SETUP):
        await connected.wait()
    await free(server, SETUP + 1.0)
    await peer.close()
    assert server.metric("parley_sessions_total", reason="never_connected") == before + 1
    assert ends(server)[-1] == "never_connected"


async def test_the_places_of_callers_who_vanish_without_a_word_are_free_within_ten_seconds(
    tmp_path: Path,
) -> None:
    """One is quiet; one is being spoken to; one is in a call, and its process is killed. They might
    come back, until newcomers want their places.
    """
    ask = (
        '{"type":"conversation.item.create","item":{"type":"message","role":"user","content":'
        f'[{{"type":"input_text","text":"{300 * "word "}"}}]}}}}',
        '{"type":"response.create"}',
    )
    with simulated(tmp_path / "log", "--capacity", "3") as server:
        async with AsyncExitStack() as callers:
            quiet = await callers.enter_async_context(upgraded(server.url))
            listening = await callers.enter_async_context(upgraded(server.url))
            listening.writelines(map(frame, ask))
            calling = await callers.enter_async_context(call(server.url))
            await asyncio.sleep(0.5)
            assert server.metric("parley_sessions_active") == 3
            unplug(quiet)
            unplug(listening)
            hang(calling.peer)
            await until(lambda: server.metric("parley_callers_lost_total") == 3, LOST)
            for _ in range(3):
                await callers.enter_async_context(socket(server.url))
            assert server.metric("parley_sessions_active") == 3
        assert ends(server)[:3] == 3 * ["displaced"]
