"""Callers over WebRTC, by aiortc: each costs more than the server's side of it, so they are few.

A call's sound is coded anew on the way, so what a caller hears is known by its loudness over time:
it must be that of what the same caller said, less than a second ago. Each says the recording from a
second further on than the one before.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from aiohttp import ClientSession
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from av import AudioFrame

from engine.audio import pcm
from engine.contract import Samples
from server.bench.heard import Heard, Player
from server.transport.webrtc import stock

RATE, FRAME = 48_000, 960
SECONDS = FRAME / RATE
SPACING = 0.3
"""Seconds between two calls."""
_APART = 50
"""Frames of 20 ms between what two callers say, and between saying and hearing at most."""
_ALIKE = 0.6
"""Correlation of loudness, from which two sounds are the same."""
_STARTED = (b'{"type":"session.started"', b'{"type":"session.created"')
_SETTLE = 1.5
_PATIENCE = 20.0

Post = Callable[[ClientSession, str], Awaitable[str]]
"""Posts an offer; returns the answer."""


async def _live(client: ClientSession, offer: str) -> str:
    transport = {"type": "webrtc", "sdp": offer}
    asked = {"session": {"model": "gpt-live-1"}, "transport": transport}
    async with client.post("v1/live/sessions", json=asked, raise_for_status=True) as response:
        answer: str = (await response.json())["transport"]["sdp"]
        return answer


async def _realtime(client: ClientSession, offer: str) -> str:
    told = {"Content-Type": "application/sdp"}
    async with client.post(
        "v1/realtime/calls?model=gpt-realtime", data=offer, headers=told, raise_for_status=True
    ) as response:
        return await response.text()


POSTS: dict[str, Post] = {"live": _live, "realtime": _realtime}


class _Microphone(MediaStreamTrack):
    """Says ``speech`` over and over, from frame ``first`` on, in real time."""

    kind = "audio"

    def __init__(self, speech: npt.NDArray[np.int16], first: int, heard: Heard) -> None:
        super().__init__()
        self._speech, self._first, self._heard = speech, first, heard
        self.began, self.said = 0.0, 0

    async def recv(self) -> AudioFrame:
        """The next frame, when it is due."""
        self.began = self.began or time.monotonic()
        due = self.began + self.said * SECONDS
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if self._heard.counts:
            self._heard.own_late.append(time.monotonic() - due)
        at = (self._first + self.said) % len(self._speech)
        frame = AudioFrame.from_ndarray(self._speech[at : at + 1], format="s16", layout="mono")
        frame.sample_rate, frame.time_base = RATE, Fraction(1, RATE)
        frame.pts = self.said * FRAME
        self.said += 1
        return frame


class Call:
    """One caller; ``loud`` is how loud each frame of the speech is."""

    def __init__(
        self,
        number: int,
        speech: npt.NDArray[np.int16],
        loud: npt.NDArray[np.float32],
        heard: Heard,
    ) -> None:
        self.started = asyncio.Event()
        self.ended = False
        self._first = number * _APART % len(loud)
        self._loud = loud
        self._heard = heard
        self._microphone = _Microphone(speech, self._first, heard)
        self._player = Player(SECONDS)
        self._came: list[tuple[int, float]] = []
        """Which frame was being said when one came, and how loud that one was."""
        self._listening: asyncio.Task[None] | None = None
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))

    async def connect(self, client: ClientSession, post: Post) -> None:
        """Makes the call."""
        began = time.monotonic()
        channel = self._peer.createDataChannel("oai-events")
        self._peer.addTrack(self._microphone)
        self._peer.on("track", self._listen)
        channel.on("message", lambda text: self._told(text.encode(), began))
        channel.on("close", self._end)
        stock.bind(self._peer, ["127.0.0.1"])
        await self._peer.setLocalDescription(await self._peer.createOffer())
        answer = await post(client, self._peer.localDescription.sdp)
        await self._peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    async def close(self) -> None:
        """Hangs up."""
        await self._peer.close()
        if self._listening is not None:
            self._listening.cancel()

    def delay(self) -> float | None:
        """Seconds from saying to hearing, while it was counted; None: what came is not its own."""
        if len(self._came) < _APART:
            return None
        said, came = map(np.array, zip(*self._came, strict=True))
        alike = [
            float(np.corrcoef(came, self._loud[(said - lag) % len(self._loud)])[0, 1])
            for lag in range(3 * _APART)
        ]
        lag = int(np.argmax(alike))
        return lag * SECONDS if lag < _APART and alike[lag] >= _ALIKE else None

    def _end(self) -> None:
        self.ended = True

    def _told(self, text: bytes, began: float) -> None:
        if text.startswith(_STARTED) and not self.started.is_set():
            self._heard.connecting.append(time.monotonic() - began)
            self.started.set()
        self._heard.errors += json.loads(text)["type"] == "error"

    def _listen(self, track: MediaStreamTrack) -> None:
        self._listening = asyncio.create_task(self._hear(track))

    async def _hear(self, track: MediaStreamTrack) -> None:
        with suppress(MediaStreamError):
            while True:
                frame: Any = await track.recv()
                self._player.take(time.monotonic(), self._heard)
                if self._heard.counts:
                    sound = frame.to_ndarray().astype(np.float32) / 32768
                    now = self._first + self._microphone.said
                    self._came.append((now, float(np.sqrt(np.mean(np.square(sound))))))
        self.ended = True


class Calls:
    """All callers of one level.

    Args:
        url: of the server.
        protocol: what they speak.
        speech: what they say, at 48 kHz.
        callers: how many.
    """

    def __init__(self, url: str, protocol: str, speech: Samples, callers: int) -> None:
        self.heard = Heard()
        self._url, self._post = url, POSTS[protocol]
        frames = speech[: len(speech) // FRAME * FRAME].reshape(-1, FRAME)
        loud = np.sqrt(np.mean(np.square(frames), axis=1))
        said = pcm.to_int16(frames)
        self._calls = [Call(number, said, loud, self.heard) for number in range(callers)]

    async def gather(self) -> None:
        """All call and begin to talk; returns when it has settled."""
        async with ClientSession(self._url) as client:
            connecting = []
            for call in self._calls:
                connecting.append(asyncio.create_task(call.connect(client, self._post)))
                await asyncio.sleep(SPACING)
            await asyncio.wait(connecting, timeout=_PATIENCE)
        starting = [asyncio.create_task(call.started.wait()) for call in self._calls]
        _, never = await asyncio.wait(starting, timeout=_PATIENCE)
        for waiting in never:
            waiting.cancel()
        await asyncio.sleep(_SETTLE)

    async def talk(self, seconds: float) -> None:
        """They talk on, and what they hear is counted."""
        self.heard.counts = True
        await asyncio.sleep(seconds)
        self.heard.counts = False
        for call in self._calls:
            if call.ended or not call.started.is_set():
                self.heard.lost += 1
            elif (delay := call.delay()) is None:
                self.heard.wrong += 1
            else:
                self.heard.back.append(delay)

    async def leave(self) -> None:
        """All hang up."""
        await asyncio.gather(*(call.close() for call in self._calls))
