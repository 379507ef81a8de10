"""What a session's socket does below the events: pace, pings, sizes."""

from __future__ import annotations

import asyncio
import base64
import socket as sockets
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import ClientWebSocketResponse, WSMsgType

from engine.audio import pcm
from server.bench.frames import GOODBYE
from server.protocol.wire import MAX_AUDIO_EVENT
from server.transport import socket as session_socket
from tests.callers import SOCKET_RATE, socket
from tests.conformance.bursts import append, say, silence, tone
from tests.network.bare import UPGRADE, appending, frame, pour, reset, upgraded
from tests.network.simulated import free, simulated
from tests.service import service

CLOCKED: dict[str, Any] = {"replies": "by_itself", "tick": 320, "room": 0.5}
"""An engine that hears no faster than sound is spoken, and lets half a second wait."""


async def event(ws: ClientWebSocketResponse) -> dict[str, Any]:
    """The next event."""
    return dict(await ws.receive_json(timeout=15))


async def until(ws: ClientWebSocketResponse, kind: str) -> dict[str, Any]:
    """The next event of that type."""
    while (came := await event(ws))["type"] != kind:
        continue
    return came


async def test_nothing_waits_in_the_kernel_for_a_fuller_packet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []

    def keep_alive(sock: sockets.socket) -> None:
        seen.append(sock.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY))

    monkeypatch.setattr(session_socket, "keep_alive", keep_alive)
    async with service() as now, now.caller.ws_connect("/v1/realtime") as ws:
        await event(ws)
        assert seen
        assert all(seen)


async def test_a_ping_is_answered_and_one_of_ours_is_never_waited_for() -> None:
    async with service() as now, now.caller.ws_connect("/v1/realtime", autoping=False) as ws:
        for number in range(3):
            await ws.ping(b"%d" % number)
            while (answer := await ws.receive(timeout=15)).type is WSMsgType.TEXT:
                continue
            assert (answer.type, answer.data) == (WSMsgType.PONG, b"%d" % number)


async def test_a_client_faster_than_real_time_is_heard_whole_and_in_order(tmp_path: Path) -> None:
    """The engine would drop what does not fit; nothing reaches it before there is room."""
    with simulated(tmp_path / "log", **CLOCKED) as server:
        async with socket(server.url) as caller:
            await caller.update()  # From here on it listens.
            rising = np.repeat(np.linspace(0.1, 0.9, 30), SOCKET_RATE // 10)
            at = np.arange(len(rising))
            sound = pcm.to_pcm16((rising * np.sin(at / 9)).astype(np.float32))
            await append(caller, sound + silence(0.7))
            (item,) = (await caller.done())["output"]
        await free(server, 10)
        came = pcm.from_pcm16(caller.strict.sound[item["id"]])[: len(rising)]
        peaks = np.abs(came).reshape(30, -1).max(axis=1)
        assert peaks == pytest.approx(np.linspace(0.1, 0.9, 30), abs=0.05)
        skipped = server.metric("parley_engine", figure="ticks_skipped")
        assert server.metric("parley_engine", figure="dropped_samples") <= skipped * CLOCKED["tick"]


async def test_a_client_without_end_is_read_no_further_and_others_are_served(
    tmp_path: Path,
) -> None:
    """The unbounded backlog. Its place is free as soon as it is gone."""
    with simulated(tmp_path / "log", "--limits.grace", "0", **CLOCKED) as server:
        async with upgraded(server.url) as greedy, socket(server.url) as caller:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(pour(greedy), 5)
            await say(caller)
            assert (await caller.done())["status"] == "completed"
            reset = struct.pack("ii", 1, 0)  # as the kernel does for who dies with events unread
            greedy.get_extra_info("socket").setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, reset)
        await free(server, 10)


async def test_an_append_beyond_the_limit_is_an_error_and_the_session_goes_on() -> None:
    """The 16 MB frame that was taken."""
    async with service() as now, now.caller.ws_connect("/v1/realtime") as ws:
        await ws.send_str(appending(MAX_AUDIO_EVENT))
        assert (await until(ws, "error"))["error"]["code"] == "event_too_large"
        await ws.send_json({"type": "input_audio_buffer.clear"})
        await until(ws, "input_audio_buffer.cleared")


async def test_of_a_large_append_nothing_is_lost_and_what_follows_it_stays_behind() -> None:
    async with service() as now, now.caller.ws_connect("/v1/realtime") as ws:
        session = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
        update = {"type": "session.update", "session": session}
        await ws.send_json(update)
        await until(ws, "session.updated")
        sound = base64.b64encode(tone(30) + silence(10)).decode()
        await ws.send_json({"type": "input_audio_buffer.append", "audio": sound})
        await ws.send_json({"type": "input_audio_buffer.commit"})
        await ws.send_json(update)
        assert (await event(ws))["type"] == "input_audio_buffer.committed"
        heard = await until(ws, "conversation.item.input_audio_transcription.completed")
        assert heard["usage"] == {"type": "duration", "seconds": pytest.approx(40)}


async def test_a_goodbye_is_heard_although_the_connection_is_reset_behind_it() -> None:
    """An event is being written just then, and asyncio reads no more where a write fails."""
    async with service() as now:
        client = sockets.create_connection((now.caller.host, now.caller.port or 0))
        client.sendall(UPGRADE.encode())
        client.setblocking(False)
        loop, came = asyncio.get_running_loop(), b""
        async with asyncio.timeout(15):
            while b"session.created" not in came:
                came += await loop.sock_recv(client, 1 << 16)
        (stay,) = now.manager._stays.values()
        ((subscriber, _),) = stay.audience._places
        client.send(frame(appending(8)) + GOODBYE)
        reset(client)
        subscriber.send(b"an event")
        async with asyncio.timeout(15):
            assert await stay.ended() == "hangup"
        assert stay.session.heard.end > 0
