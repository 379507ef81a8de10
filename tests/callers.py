"""Clients of a running server: each sees every event through the strict client, on the clock.

A caller has a microphone that never stops, as people's have: what it is told to say goes out in
real time, 20 ms at a time, with silence in between. :func:`socket` sends its sound in events;
:func:`call` has a track, and keeps what it hears.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import urljoin

import numpy as np
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamTrack
from av import AudioFrame

from server.transport.webrtc import stock
from tests.conformance.strict import StrictClient

if TYPE_CHECKING:
    from aiortc import RTCDataChannel

    from engine.contract import Samples

SOCKET_RATE = 24_000
TRACK_RATE = 48_000
FRAME = 0.02
"""Seconds of sound per packet or event."""

Send = Callable[[dict[str, Any]], Awaitable[None]]
Post = Callable[[str, str], Awaitable[tuple[str, str]]]
"""Posts an offer to a server's URL; returns the answer and the call's location."""


class Microphone:
    """Sound at ``rate`` Hz, a frame at a time: what it was given to say, else silence."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.muted = False
        self._frame = round(FRAME * rate)
        self._speech = np.zeros(0, np.float32)
        self._due = 0.0

    def say(self, pcm: Samples) -> None:
        """Adds speech behind what is still to be said."""
        self._speech = np.concatenate([self._speech, pcm])

    async def spoken(self) -> None:
        """Waits until everything was said."""
        while len(self._speech):  # noqa: ASYNC110 - a queue by the sample has no event
            await asyncio.sleep(FRAME / 2)

    async def frame(self) -> Samples:
        """The next frame, when it is due."""
        now = time.monotonic()
        self._due = max(self._due + FRAME, now - 5 * FRAME)
        await asyncio.sleep(max(0.0, self._due - now))
        said, self._speech = self._speech[: self._frame], self._speech[self._frame :]
        return np.pad(said, (0, self._frame - len(said)))


class Strict(Protocol):
    """Judges a session's events, whatever its protocol."""

    @property
    def events(self) -> list[dict[str, Any]]:
        """Those that it saw."""

    def see(self, text: str) -> dict[str, Any]:
        """Takes the next one off the wire."""


Judge = TypeVar("Judge", bound=Strict)


class Client(Generic[Judge]):
    """One client in a session.

    Args:
        send: sends an event.
        strict: sees what comes.
        rate: Hz, of its microphone.

    Attributes:
        closed: resolves, when the connection has ended, to the close code (None: it has none).
        heard: what came on the track, as (arrival, samples) pairs.
        location: of the call; ``peer`` is its end here.
    """

    peer: RTCPeerConnection

    def __init__(self, send: Send, strict: Judge, rate: int) -> None:
        self.strict = strict
        self.microphone = Microphone(rate)
        self.closed: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self.heard: list[tuple[float, Samples]] = []
        self.times: list[float] = []
        self.location = ""
        self._send = send
        self._passed = 0
        self._failure: Exception | None = None
        self._arrived = asyncio.Event()

    async def send(self, kind: str, **fields: Any) -> None:
        """Sends an event."""
        await self._send({"type": kind, **fields})

    async def event(self, kind: str, within: float = 15.0) -> dict[str, Any]:
        """The next event of that type behind the last one that was waited for."""
        try:
            async with asyncio.timeout(within):
                while True:
                    self.verdict()
                    for at in range(self._passed, len(self.strict.events)):
                        if self.strict.events[at]["type"] == kind:
                            self._passed = at + 1
                            return self.strict.events[at]
                    self._check()
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            came = [event["type"] for event in self.strict.events[self._passed :]]
            raise AssertionError(f"no {kind} within {within} s; came: {came}") from None

    def verdict(self) -> None:
        """Raises what was wrong with the events so far, if anything was."""
        if self._failure is not None:
            raise self._failure

    def came(self, text: str) -> None:
        """Takes an event off the wire."""
        try:
            self.strict.see(text)
            self.times.append(time.monotonic())
        except Exception as failure:
            self._failure = self._failure or failure
        self._arrived.set()

    def ended(self, code: int | None) -> None:
        """The connection is gone."""
        if not self.closed.done():
            self.closed.set_result(code)
        self._arrived.set()

    def _check(self) -> None:
        if self.closed.done():
            code, last = self.closed.result(), [e["type"] for e in self.strict.events[-8:]]
            raise AssertionError(f"the connection has ended, with code {code}, after {last}")


class Caller(Client[StrictClient]):
    """One client in a session of Realtime; ``paced`` as :class:`StrictClient` has it."""

    def __init__(self, send: Send, *, paced: bool, rate: int) -> None:
        super().__init__(send, StrictClient(paced=paced), rate)

    async def update(self, **session: Any) -> dict[str, Any]:
        """Changes the session; returns it as it is then."""
        await self.send("session.update", session={"type": "realtime", **session})
        return dict((await self.event("session.updated"))["session"])

    async def write(self, text: str) -> None:
        """Adds a typed message of the user."""
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)
        await self.event("conversation.item.done")

    async def done(self, within: float = 30.0) -> dict[str, Any]:
        """The next response, when it is done."""
        return dict((await self.event("response.done", within))["response"])


async def talk(caller: Caller) -> None:
    """Streams the microphone in events, until cancelled or the connection has ended."""
    while not caller.closed.done():
        frame = await caller.microphone.frame()
        if not caller.microphone.muted:
            pcm = (np.clip(frame, -1, 1) * 32767).round().astype("<i2").tobytes()
            audio = base64.b64encode(pcm).decode()
            await caller.send("input_audio_buffer.append", audio=audio)


@asynccontextmanager
async def socket(url: str, *, talks: bool = False, query: str = "") -> AsyncIterator[Caller]:
    """A session over a WebSocket; ``talks``: its microphone is on."""
    address = urljoin(url, f"v1/realtime?{query}")
    async with ClientSession() as web, web.ws_connect(address) as ws:
        caller = Caller(ws.send_json, paced=False, rate=SOCKET_RATE)
        async with attended(caller, read(ws, caller), talks=talks):
            yield caller


@asynccontextmanager
async def attended(
    caller: Caller, reading: Coroutine[None, None, None], *, talks: bool
) -> AsyncIterator[None]:
    """Has a caller hear, and talk if it ``talks``, from its greeting on."""
    tasks = [asyncio.create_task(reading)]
    if talks:
        tasks.append(asyncio.create_task(talk(caller)))
    try:
        await caller.event("session.created")
        yield
    finally:
        await stopped(tasks)


async def stopped(tasks: list[asyncio.Task[None]]) -> None:
    """Ends tasks, whatever became of them."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def read(ws: ClientWebSocketResponse, caller: Client[Any]) -> None:
    """Brings a client what its socket is sent, to its end."""
    async for message in ws:
        if message.type is WSMsgType.TEXT:
            caller.came(message.data)
    caller.ended(ws.close_code)


class _Track(MediaStreamTrack):
    """A microphone as a track."""

    kind = "audio"

    def __init__(self, microphone: Microphone) -> None:
        super().__init__()
        self._microphone = microphone
        self._at = 0

    async def recv(self) -> AudioFrame:
        pcm = (np.clip(await self._microphone.frame(), -1, 1) * 32767).astype(np.int16)
        frame = AudioFrame.from_ndarray(pcm[np.newaxis], format="s16", layout="mono")
        frame.sample_rate, frame.pts = TRACK_RATE, self._at
        frame.time_base = Fraction(1, TRACK_RATE)
        self._at += len(pcm)
        return frame


async def posted(url: str, offer: str) -> tuple[str, str]:
    """Posts an offer as it stands."""
    headers = {"Content-Type": "application/sdp"}
    calls = urljoin(url, "v1/realtime/calls")
    async with ClientSession() as web, web.post(calls, data=offer, headers=headers) as response:
        assert response.status == 201, await response.text()
        return await response.text(), response.headers["Location"]


@asynccontextmanager
async def call(url: str, post: Post = posted) -> AsyncIterator[Caller]:
    """A session over WebRTC, with the microphone on its track."""
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    channel = connection.createDataChannel("oai-events")

    async def send(event: dict[str, Any]) -> None:
        channel.send(json.dumps(event))

    caller = Caller(send, paced=True, rate=TRACK_RATE)
    async with on_the_line(caller, connection, channel, url, post):
        await caller.event("session.created")
        yield caller


@asynccontextmanager
async def on_the_line(
    caller: Client[Any],
    connection: RTCPeerConnection,
    channel: RTCDataChannel,
    url: str,
    post: Post,
) -> AsyncIterator[None]:
    """Makes a call, and has its caller talk and hear until it ends."""
    caller.peer = connection
    connection.addTrack(_Track(caller.microphone))
    channel.on("message", caller.came)
    channel.on("close", lambda: caller.ended(None))
    listening: list[asyncio.Task[None]] = []
    connection.on(
        "track", lambda track: listening.append(asyncio.create_task(_listen(track, caller)))
    )
    try:
        caller.location = await connect(connection, url, post)
        yield
    finally:
        await connection.close()
        await stopped(listening)


async def connect(connection: RTCPeerConnection, url: str, post: Post = posted) -> str:
    """Makes a call; returns its location."""
    stock.bind(connection, ["127.0.0.1"])
    await connection.setLocalDescription(await connection.createOffer())
    answer, location = await post(url, connection.localDescription.sdp)
    await connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    return location


async def _listen(track: MediaStreamTrack, caller: Client[Any]) -> None:
    while True:
        frame = await track.recv()
        assert isinstance(frame, AudioFrame)
        pcm = frame.to_ndarray().reshape(-1, 2)[:, 0].astype(np.float32)
        caller.heard.append((time.monotonic(), pcm / np.float32(32768)))
