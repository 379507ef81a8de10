"""Clients of GPT-Live: each sees every event through the strict one, and names what it sends.

As in :mod:`tests.callers` a microphone never stops. A session is closed as the protocol has it when
its block ends, and then nothing may be left open.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urljoin

import av
import numpy as np
from aiohttp import ClientSession
from aiortc import RTCConfiguration, RTCPeerConnection

from tests.callers import TRACK_RATE, Client, Microphone, Send, on_the_line, read, stopped
from tests.conformance.live_strict import Place, StrictLive, bytes_per_second

if TYPE_CHECKING:
    from engine.contract import Samples

SESSIONS = "v1/live/sessions"
Create = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Has a server make the session and the answer that a body asks for."""
PCM: Mapping[str, Any] = {"type": "audio/pcm", "rate": 24_000}
_CODECS = {"audio/pcm": "pcm_s16le", "audio/pcmu": "pcm_mulaw", "audio/pcma": "pcm_alaw"}


class LiveCaller(Client[StrictLive]):
    """One client in a session of GPT-Live, or a sideband of it.

    Attributes:
        id: the session's.
        format: of what it says in events.
        leave: closes its socket without a word.
    """

    leave: Callable[[], Awaitable[object]]

    def __init__(self, send: Send, place: Place, rate: int) -> None:
        super().__init__(send, StrictLive(place), rate)
        self.id = ""
        self.format = PCM
        self._names = map("mine_{}".format, itertools.count(1))

    async def send(self, kind: str, **fields: Any) -> None:
        """Sends an event, by a name of its own where ``fields`` give none."""
        fields.setdefault("event_id", next(self._names))
        self.strict.asks({"type": kind, **fields})
        await super().send(kind, **fields)

    async def start(self, **session: Any) -> None:
        """Starts the session."""
        await self.send("session.start", session={"model": "gpt-live-1", **session})
        self.id = (await self.event("session.started"))["session"]["id"]

    async def append(self, pcm: Samples) -> None:
        """Sends sound, all of it now."""
        sound = coded(pcm, self.format)
        self.strict.speaks(len(sound) / bytes_per_second(self.format))
        audio = base64.b64encode(sound).decode()
        await super().send("session.input_audio.append", audio=audio)

    async def refused(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Sends what cannot be had; returns the error that says so, and which event it was."""
        await self.send(kind, **fields)
        error = await self.event("error")
        return dict(error["error"])

    async def close(self) -> dict[str, Any]:
        """Ends the session."""
        await self.send("session.close")
        return await self.event("session.closed")

    async def shown(self, seconds: float) -> None:
        """Waits until more of the session's sound than that has come."""
        async with asyncio.timeout(15 + seconds):
            while self.strict.seconds <= seconds:  # noqa: ASYNC110 - a stream has no event
                await asyncio.sleep(0.02)
        self.verdict()

    @property
    def pcm(self) -> Samples:
        """The session's sound in events, at its format's rate."""
        return decoded(bytes(self.strict.sound), self.strict.format)


@asynccontextmanager
async def unstarted(url: str, path: str = SESSIONS, **headers: str) -> AsyncIterator[LiveCaller]:
    """A socket whose session is not started yet."""
    async with _connected(urljoin(url, path), "socket", headers) as caller:
        yield caller


@asynccontextmanager
async def live(url: str, *, talks: bool = False, **session: Any) -> AsyncIterator[LiveCaller]:
    """A session over a WebSocket; ``talks``: its microphone is on."""
    async with unstarted(url) as caller:
        caller.format = session.get("audio", {}).get("format", PCM)
        caller.microphone = Microphone(caller.format["rate"])
        await caller.start(**session)
        talking = [asyncio.create_task(_talk(caller))] if talks else []
        try:
            yield caller
        finally:
            await stopped(talking)
        await ended(caller)


@asynccontextmanager
async def watching(url: str, session_id: str) -> AsyncIterator[LiveCaller]:
    """A sideband of a session, from the first sound that it is shown on."""
    target = urljoin(url, f"{SESSIONS}/{session_id}/attach")
    async with _connected(target, "sideband", {}) as caller:
        await caller.shown(0.0)
        yield caller
        caller.verdict()


async def posted(url: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Asks for a call."""
    async with ClientSession() as web, web.post(urljoin(url, SESSIONS), json=body) as response:
        assert response.status == 201, await response.text()
        return dict(await response.json())


@asynccontextmanager
async def live_call(
    url: str, *, dcid: int | None = None, create: Create = posted, **session: Any
) -> AsyncIterator[LiveCaller]:
    """A session over WebRTC; with ``dcid`` its channel is agreed on beforehand."""
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    agreed = dcid is not None
    channel = connection.createDataChannel("oai-events", negotiated=agreed, id=dcid)
    number = {"dcid": dcid} if agreed else {}

    async def send(event: dict[str, Any]) -> None:
        channel.send(json.dumps(event))

    async def post(url: str, offer: str) -> tuple[str, str]:
        transport = {"type": "webrtc", "sdp": offer, **number}
        session_ = {"model": "gpt-live-1", **session}
        made = await create(url, {"session": session_, "transport": transport})
        assert made["transport"]["type"] == "webrtc"
        return made["transport"]["sdp"], made["session"]["id"]

    caller = LiveCaller(send, "channel", TRACK_RATE)
    async with on_the_line(caller, connection, channel, url, post):
        caller.id = caller.location
        assert (await caller.event("session.started"))["session"]["id"] == caller.id
        yield caller
        await ended(caller)


async def ended(caller: LiveCaller) -> None:
    """Ends a session unless it has ended, and has nothing left open."""
    if "session.closed" not in caller.strict.types:
        await caller.close()
    async with asyncio.timeout(15):
        await asyncio.shield(caller.closed)
    caller.verdict()
    caller.strict.finish()


def coded(pcm: Samples, format_: Mapping[str, Any]) -> bytes:
    """Sound as bytes, by FFmpeg's codecs: nothing of ours judges itself."""
    whole = (np.clip(pcm, -1, 1) * 32767).round().astype("<i2")
    if format_["type"] == "audio/pcm":
        return bytes(whole.tobytes())
    codec = _codec(format_, "w")
    frame = av.AudioFrame.from_ndarray(whole[np.newaxis], format="s16", layout="mono")
    frame.sample_rate = format_["rate"]
    return b"".join(bytes(packet) for packet in codec.encode(frame))


def decoded(data: bytes, format_: Mapping[str, Any]) -> Samples:
    """The sound that ``data`` is."""
    if format_["type"] == "audio/pcm":
        return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)
    frames = _codec(format_, "r").decode(av.Packet(data)) if data else []
    pcm = np.concatenate([np.zeros(0, np.int16), *(frame.to_ndarray()[0] for frame in frames)])
    return pcm.astype(np.float32) / np.float32(32768)


def _codec(format_: Mapping[str, Any], mode: Literal["r", "w"]) -> av.AudioCodecContext:
    codec = av.CodecContext.create(_CODECS[format_["type"]], mode)
    assert isinstance(codec, av.AudioCodecContext)
    codec.sample_rate, codec.layout, codec.format = format_["rate"], "mono", "s16"
    return codec


@asynccontextmanager
async def _connected(
    target: str, place: Place, headers: Mapping[str, str]
) -> AsyncIterator[LiveCaller]:
    async with ClientSession() as web, web.ws_connect(target, headers=headers) as ws:
        caller = LiveCaller(ws.send_json, place, PCM["rate"])
        caller.leave = ws.close
        reading = asyncio.create_task(read(ws, caller))
        try:
            yield caller
        finally:
            await stopped([reading])


async def _talk(caller: LiveCaller) -> None:
    while not caller.closed.done():
        await caller.append(await caller.microphone.frame())
