"""A call over loopback: aiortc as the caller, our peer as the service."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack, MediaStreamTrack
from aiortc.rtcsctptransport import SCTP_DATA_FIRST_FRAG, SCTP_TSN_MODULO, DataChunk
from av import AudioFrame
from structlog.testing import capture_logs

from server.errors import ServiceError
from server.transport.webrtc import peer as peer_module
from server.transport.webrtc import sender, stock
from server.transport.webrtc.incoming import Incoming
from server.transport.webrtc.peer import Peer
from server.transport.webrtc.port import MediaPort
from server.transport.webrtc.rtp import Packet
from server.transport.webrtc.sdp import OfferError, parse_offer
from server.transport.webrtc.sender import Sender
from server.transport.webrtc.stock.sctp import CHUNKS, STREAMS
from server.webrtc_settings import Sound

LOOPBACK = ["127.0.0.1"]
SOUND = Sound()
RATE = 16_000


@dataclass
class Call:
    """Both ends of a call and what arrived at each."""

    peer: Peer
    caller: RTCPeerConnection
    channel: RTCDataChannel
    at_peer: list[str] = field(default_factory=list)
    at_caller: list[str] = field(default_factory=list)
    sound: list[np.ndarray] = field(default_factory=list)


async def offer(caller: RTCPeerConnection) -> str:
    description = await caller.createOffer()
    await caller.setLocalDescription(description)
    return str(caller.localDescription.sdp)


async def until(true: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if true():
                return
            await asyncio.sleep(0.01)


async def listen(track: MediaStreamTrack, into: list[np.ndarray]) -> None:
    while True:
        frame = await track.recv()
        assert isinstance(frame, AudioFrame)
        into.append(frame.to_ndarray().reshape(-1, 2)[:, 0])


@asynccontextmanager
async def call(
    dcid: int | None = None,
    setup_timeout: float = 5.0,
    tracks: int = 1,
    coding: Sound = SOUND,
) -> AsyncIterator[Call]:
    port = MediaPort(0)
    port.open(LOOPBACK)
    caller = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    for _ in range(tracks):
        caller.addTrack(AudioStreamTrack())
    channel = caller.createDataChannel("any label", negotiated=dcid is not None, id=dcid)
    stock.bind(caller, LOOPBACK)
    at_peer: list[str] = []
    parsed = parse_offer(await offer(caller))

    def refuse(error: ServiceError) -> None:
        peer.events.send(json.dumps({"type": "error"} | error.body()).encode())

    peer = Peer(parsed, port, coding, RATE, setup_timeout, at_peer.append, refuse)
    now = Call(peer, caller, channel, at_peer)
    channel.on("message", now.at_caller.append)
    listening: list[asyncio.Task[None]] = []
    caller.on(
        "track", lambda track: listening.append(asyncio.create_task(listen(track, now.sound)))
    )
    answer = await peer.answer(dcid)
    await caller.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    try:
        yield now
    finally:
        await peer.close()
        await caller.close()
        port.close()
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)


async def test_sound_and_events_pass_both_ways() -> None:
    async with call() as now:
        now.peer.events.send(b"before it opened")
        assert await now.peer.connected()
        await until(lambda: now.channel.readyState == "open")
        now.channel.send("from the caller")
        await until(lambda: now.at_peer == ["from the caller"])
        await until(lambda: now.at_caller == ["before it opened"])

        frames = now.peer.frames()
        first = await anext(frames)
        assert first.pcm.dtype == np.int16
        assert len(first.pcm) == RATE // 50

        tone = np.sin(np.arange(sender.RATE) * 2 * np.pi * 440 / sender.RATE).astype(np.float32)
        for start in range(0, len(tone), sender.RATE // 50):
            now.peer.send(tone[start : start + sender.RATE // 50] * np.float32(0.5))
            await asyncio.sleep(0.02)
        assert now.peer.stats()["samples_out"] == len(tone)
        await until(lambda: sum(map(len, now.sound)) > 48_000 * 0.7)
        heard = np.concatenate(now.sound)[9_600:28_800].astype(np.float64)
        spectrum = np.abs(np.fft.rfft(heard * np.hanning(len(heard))))
        assert abs(np.argmax(spectrum) * 48_000 / len(heard) - 440) < 5
        assert 0.4 < np.abs(heard).max() / 32768 < 0.6


async def test_reports_tell_the_caller_what_was_sent_and_us_what_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[float] = []
    monkeypatch.setattr(Sender, "lost", lambda self, share: told.append(share))
    async with call() as now:
        assert await now.peer.connected()
        for _ in range(25):
            now.peer.send(np.full(sender.RATE // 50, 0.1, np.float32))
            await asyncio.sleep(0.02)
        receiver = now.caller.getTransceivers()[0].receiver
        reported: dict[str, Any] = {}
        async with asyncio.timeout(15):
            while reported.get("packetsSent") != 25 or not told:
                await asyncio.sleep(0.1)
                for each in (await receiver.getStats()).values():
                    if each.type == "remote-outbound-rtp":
                        reported = vars(each)
        assert 25 * 20 < reported["bytesSent"] < 25 * 200
        assert abs(reported["remoteTimestamp"].timestamp() - time.time()) < 10
        assert set(told) == {0}


async def test_a_channel_agreed_beforehand_needs_no_announcement() -> None:
    async with call(dcid=4) as now:
        assert await now.peer.connected()
        now.peer.events.send(b"hello")
        await until(lambda: now.at_caller == ["hello"])
        now.channel.send("hello too")
        await until(lambda: now.at_peer == ["hello too"])


async def test_a_caller_who_hangs_up_ends_the_call() -> None:
    async with call() as now:
        assert await now.peer.connected()
        await now.caller.close()
        async with asyncio.timeout(2):
            assert await now.peer.ended() == "hangup"


async def test_a_caller_who_never_connects_is_given_up() -> None:
    caller = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    caller.addTrack(AudioStreamTrack())
    caller.createDataChannel("oai-events")
    peer = Peer(parse_offer(await offer(caller)), MediaPort(0), SOUND, RATE, 0.2, print, print)
    await peer.answer()
    assert not await peer.connected()
    assert await peer.ended() == "never_connected"
    await peer.close()
    await caller.close()


async def test_a_caller_who_falls_silent_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "_SILENCE", 0.5)
    async with call() as now:
        assert await now.peer.connected()
        await asyncio.sleep(1.0)
        assert not now.peer._ended.done()
        transport = now.caller.getTransceivers()[0].receiver.transport.transport
        for protocol in transport._connection._protocols:
            protocol.transport.abort()
        began = time.monotonic()
        async with asyncio.timeout(3):
            assert await now.peer.ended() == "peer_lost"
        assert time.monotonic() - began < 1.5


async def test_sound_that_cannot_be_read_ends_the_call_aloud(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: Incoming, packet: Packet, now: int) -> None:
        raise ValueError("no such layout")

    monkeypatch.setattr(Incoming, "push", broken)
    with capture_logs() as lines:
        async with call() as now, asyncio.timeout(5):
            assert await now.peer.ended() == "failed"
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["call failed"]


@pytest.mark.parametrize("channels", [1, 100])
async def test_events_without_an_end_end_the_call_and_are_not_kept(channels: int) -> None:
    async with call() as now:
        assert await now.peer.connected()
        sctp: Any = now.caller.sctp
        for number in range(2 * CHUNKS):
            piece = DataChunk(flags=SCTP_DATA_FIRST_FRAG)
            piece.tsn = (sctp._local_tsn + number) % SCTP_TSN_MODULO
            piece.stream_id = number % channels
            piece.user_data = b"{"
            await sctp._send_chunk(piece)
        async with asyncio.timeout(15):
            assert await now.peer.ended() == "failed"
        held: Any = now.peer._connection.sctp
        assert len(held._inbound_streams) <= STREAMS + 1
        assert sum(len(each.reassembly) for each in held._inbound_streams.values()) <= CHUNKS + 1


async def test_of_several_offered_tracks_the_first_alone_is_heard() -> None:
    async with call(tracks=2) as now:
        assert await now.peer.connected()
        answer = now.caller.remoteDescription.sdp
        assert [line for line in answer.splitlines() if line in ("a=sendrecv", "a=inactive")] == [
            "a=sendrecv",
            "a=inactive",
        ]
        frames = now.peer.frames()
        began, heard = time.monotonic(), 0
        while time.monotonic() - began < 0.5:
            heard += len((await anext(frames)).pcm)
        assert heard / RATE < 0.5 + 0.3


async def test_an_event_longer_than_the_caller_takes_is_left_out_and_told() -> None:
    async with call() as now:
        assert await now.peer.connected()
        now.peer.events.send(json.dumps({"type": "long.event", "text": "x" * 300_000}).encode())
        now.peer.events.send(b"short")
        await until(lambda: len(now.at_caller) == 2)
        told, short = now.at_caller
        assert json.loads(told)["error"]["code"] == "event_too_large"
        assert "long.event" in told
        assert short == "short"


async def test_closing_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    async with call() as now:
        assert await now.peer.connected()
    await asyncio.sleep(0.1)
    assert asyncio.all_tasks() == before


async def test_frames_end_with_the_call() -> None:
    async with call() as now:
        assert await now.peer.connected()
        await now.peer.close()
        async with asyncio.timeout(1):
            async for _ in now.peer.frames():
                pass


async def test_an_offer_the_stack_cannot_read_is_an_offer_error() -> None:
    text = "v=0\r\nm=audio 9 X\r\na=ice-ufrag:abcd\r\na=ice-pwd:x\r\na=fingerprint:sha-256 AA\r\n"
    peer = Peer(parse_offer(text), MediaPort(0), SOUND, RATE, 1.0, print, print)
    with pytest.raises(OfferError):
        await peer.answer()
    await peer.close()
