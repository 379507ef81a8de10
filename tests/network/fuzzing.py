"""A client that sends what no client should: ``python -m tests.network.fuzzing URL COUNT SEED``.

Valid events of every kind are mutated, in their bytes and in their fields, and sent in both
protocols, over a WebSocket and over a call's data channel. After every few a question is asked
whose answer is known, so a session that hangs, or ends without a word, is found where it did. Each
line it prints counts what was sent one way, answered with an error, and how many sessions ended
(each with a reason).
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urljoin

from aiohttp import ClientSession, WSMsgType
from aiortc import RTCConfiguration, RTCPeerConnection
from aiortc.mediastreams import AudioStreamTrack

from tests.callers import Post, connect, posted

EACH = 25
"""Inputs between two questions."""
PATIENCE = 20.0
LONGEST = 48 * 1024
"""Bytes of an input: a data channel takes no more at once."""
BEFORE = 20
"""Inputs that come before a Live session's start."""

Event: TypeAlias = dict[str, Any]

SESSION = {
    "type": "realtime",
    "output_modalities": ["audio"],
    "instructions": "Be kind.",
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "transcription": {"model": "whisper-1", "language": "en"},
            "turn_detection": {"type": "server_vad", "threshold": 0.5, "silence_duration_ms": 300},
        },
        "output": {"format": {"type": "audio/pcmu"}, "voice": "low", "speed": 1.0},
    },
    "tools": [{"type": "function", "name": "look", "description": "", "parameters": {}}],
    "tool_choice": "auto",
    "max_output_tokens": 100,
}
ITEM = {
    "id": "item_1",
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "Hello"}],
}
CALL = {"type": "function_call_output", "call_id": "call_1", "output": "{}"}
EVENTS: tuple[Event, ...] = (
    {"type": "session.update", "event_id": "e1", "session": SESSION},
    {"type": "session.update", "session": {"type": "transcription", "audio": {"input": {}}}},
    {"type": "input_audio_buffer.append", "audio": "AAAAAAAAAAA="},
    {"type": "input_audio_buffer.commit"},
    {"type": "input_audio_buffer.clear"},
    {"type": "output_audio_buffer.clear"},
    {"type": "conversation.item.create", "previous_item_id": "root", "item": ITEM},
    {"type": "conversation.item.create", "item": CALL},
    {"type": "conversation.item.retrieve", "item_id": "item_1"},
    {"type": "conversation.item.delete", "item_id": "item_1"},
    {
        "type": "conversation.item.truncate",
        "item_id": "item_1",
        "content_index": 0,
        "audio_end_ms": 20,
    },
    {
        "type": "response.create",
        "response": {"conversation": "none", "input": [ITEM], "metadata": {"a": "b"}},
    },
    {"type": "response.cancel", "response_id": "resp_1"},
)
QUESTION: Event = {"type": "conversation.item.retrieve", "item_id": "none"}

HISTORY = {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
LIVE_SESSION = {
    "model": "gpt-live-1",
    "instructions": "Be kind.",
    "audio": {"format": {"type": "audio/pcm", "rate": 24000}, "output": {"voice": "marin"}},
    "delegation": {"type": "client", "acknowledgement_delay_ms": 400},
    "input": [HISTORY],
    "store": False,
    "safety_identifier": "somebody",
    "triggers": [],
}
LIVE_CALL = {"model": "gpt-live-1", "client": {"data_channel": {"allowed_client_events": "all"}}}
START: Event = {"type": "session.start", "session": LIVE_SESSION}
TOLD = {"content": "It is sunny.", "delegation_id": None}
LIVE_EVENTS: tuple[Event, ...] = (
    START | {"event_id": "e1"},
    {"type": "session.update", "session": {"delegation": LIVE_SESSION["delegation"]}},
    {"type": "session.update", "session": {"triggers": [], "instructions": "Be brief."}},
    {"type": "session.input_audio.append", "audio": "AAAAAAAAAAA="},
    {"type": "session.input_audio.mute", "event_id": "e2"},
    {"type": "session.input_audio.unmute"},
    {"type": "session.instructions.append"} | TOLD,
    {"type": "session.thinking.append", "event_id": "e3"} | TOLD,
    {"type": "session.commentary.append"} | TOLD,
    {"type": "session.output_audio.fixture.play", "audio": "AAAA"},
    {"type": "response.item.create", "item": CALL},
    {"type": "decision.item.delete", "item_id": "item_1"},
    {"type": "transport.dtmf.send", "event": "1"},
)
LIVE_QUESTION: Event = {"type": "session.update", "session": {"instructions": "Which?"}}

STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1e308, 0.5, 2**63, -(2**70), "", "\x00", "\U0001f600", "x" * 5000),
    *([], {}, [[]] * 50, {"type": "realtime"}, "null", "root", "AAA", "=", "item_1"),
)


def mutated(rng: random.Random, events: tuple[Event, ...]) -> str | bytes:
    """One of ``events`` that something was done to, once or several times."""
    event = json.loads(json.dumps(rng.choice(events)))
    for _ in range(rng.randint(0, 3)):
        event = _changed(event, rng)
    text = json.dumps(event)[:LONGEST]
    if rng.random() < 0.3:
        text = _scratched(text, rng)
    if rng.random() < 0.02:
        return text.encode("utf-8", "surrogatepass")
    return text


def _changed(value: Any, rng: random.Random) -> Any:
    """``value`` with something in it replaced, taken out, doubled or nested."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice([*value])
        match rng.randrange(6):
            case 0:
                return {name: kept for name, kept in value.items() if name != key}
            case 1:
                return value | {key + rng.choice(("", "_", "id")): rng.choice(STRANGE)}
            case _:
                return value | {key: _changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], _changed(value[at], rng), *value[at:]][: rng.randint(0, 40)]
    if rng.random() < 0.1:
        return _nested(value, rng.randint(1, 200))
    return rng.choice(STRANGE)


def _nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def _scratched(text: str, rng: random.Random) -> str:
    """``text`` with some of its characters changed, lost or repeated."""
    at = rng.randrange(len(text))
    match rng.randrange(4):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + chr(rng.randrange(0xD7FF)) + text[at + 1 :]
        case 2:
            return text[:at] + text[at : at + 20] * rng.randint(2, 50) + text[at:]
        case _:
            return text[at:] + text[:at]


class Line:
    """One connection: what is sent, and what came of it; ``question`` is answered by an error."""

    def __init__(self, send: Callable[[str | bytes], Any], question: Event) -> None:
        self.send = send
        self.started = False
        self._asks = question
        self.errors = 0
        self.asked = 0
        self._answered: asyncio.Future[None] | None = None
        self._question = ""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def came(self, text: str) -> None:
        """Takes an event of the server's."""
        event = json.loads(text)
        self.started = self.started or event["type"] in ("session.created", "session.started")
        if event["type"] != "error":
            return
        self.errors += 1
        error = event["error"]
        answered = error.get("event_id") or error.get("client_event_id")
        if answered == self._question and self._answered is not None:
            self._answered.set_result(None)
            self._answered = None

    def closed(self, reason: str) -> None:
        """The connection ended."""
        if not self.ended.done():
            self.ended.set_result(reason)

    async def ask(self) -> bool:
        """Waits for the answer to a question; False: the connection ended instead."""
        self.asked += 1
        self._question = f"question_{self.asked}"
        answered = self._answered = asyncio.get_running_loop().create_future()
        await self.send(json.dumps(self._asks | {"event_id": self._question}))
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait({answered, self.ended}, return_when=asyncio.FIRST_COMPLETED)
        return answered.done()


@asynccontextmanager
async def connected(url: str, path: str, question: Event) -> AsyncIterator[Line]:
    """A WebSocket."""
    async with ClientSession() as web, web.ws_connect(urljoin(url, path)) as ws:

        async def send(data: str | bytes) -> None:
            await (ws.send_str(data) if isinstance(data, str) else ws.send_bytes(data))

        line = Line(send, question)

        async def read() -> None:
            async for message in ws:
                if message.type is WSMsgType.TEXT:
                    line.came(message.data)
            line.closed(str(ws.close_code or ""))

        reading = asyncio.create_task(read())
        try:
            yield line
        finally:
            reading.cancel()


@asynccontextmanager
async def called(url: str, post: Post, question: Event) -> AsyncIterator[Line]:
    """A call over WebRTC."""
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    channel = peer.createDataChannel("oai-events")
    opened = asyncio.Event()
    channel.on("open", opened.set)
    peer.addTrack(AudioStreamTrack())

    async def send(data: str | bytes) -> None:
        while channel.bufferedAmount > LONGEST:  # noqa: ASYNC110 - the channel has no such event
            await asyncio.sleep(0.005)
        channel.send(data)

    line = Line(send, question)
    channel.on("message", line.came)
    channel.on("close", lambda: line.closed("closed"))
    try:
        await connect(peer, url, post)
        async with asyncio.timeout(PATIENCE):
            await opened.wait()
        yield line
    finally:
        await peer.close()


def socket(url: str, rng: random.Random) -> AbstractAsyncContextManager[Line]:
    """A Realtime session over a WebSocket."""
    return connected(url, "v1/realtime", QUESTION)


def call(url: str, rng: random.Random) -> AbstractAsyncContextManager[Line]:
    """A Realtime session over WebRTC."""
    return called(url, posted, QUESTION)


@asynccontextmanager
async def live_socket(url: str, rng: random.Random) -> AsyncIterator[Line]:
    """A Live session over a WebSocket, started after much that does not start it."""
    async with connected(url, "v1/live/sessions", LIVE_QUESTION) as line:
        for _ in range(BEFORE):
            await line.send(mutated(rng, LIVE_EVENTS))
        assert await line.ask(), "a socket that is not started yet goes on"
        await line.send(json.dumps(START))
        assert await line.ask()
        assert line.started
        yield line


def live_call(url: str, rng: random.Random) -> AbstractAsyncContextManager[Line]:
    """A Live session over WebRTC."""

    async def post(url: str, offer: str) -> tuple[str, str]:
        body = {"session": LIVE_CALL, "transport": {"type": "webrtc", "sdp": offer}}
        sessions = urljoin(url, "v1/live/sessions")
        async with ClientSession() as web, web.post(sessions, json=body) as response:
            assert response.status == 201, await response.text()
            made = await response.json()
        return made["transport"]["sdp"], made["session"]["id"]

    return called(url, post, LIVE_QUESTION)


class Way(NamedTuple):
    """How a session is had, and what is sent in it."""

    name: str
    open: Callable[[str, random.Random], AbstractAsyncContextManager[Line]]
    events: tuple[Event, ...]


WAYS = (
    Way("socket", socket, EVENTS),
    Way("call", call, EVENTS),
    Way("live socket", live_socket, LIVE_EVENTS),
    Way("live call", live_call, LIVE_EVENTS),
)


async def fuzz(url: str, count: int, rng: random.Random, way: Way) -> dict[str, int]:
    """Sends ``count`` inputs over sessions that are had by ``way``; returns the counts."""
    told = {"sent": 0, "errors": 0, "ended": 0}
    while told["sent"] < count:
        async with way.open(url, rng) as line:
            alive = True
            while alive and told["sent"] < count:
                for _ in range(min(EACH, count - told["sent"])):
                    await line.send(mutated(rng, way.events))
                    told["sent"] += 1
                alive = await line.ask()
            told["errors"] += line.errors - line.asked
            if not alive:
                told["ended"] += 1
                assert line.ended.result(), "the connection ended without a reason"
    return told


async def main(url: str, count: int, seed: int) -> None:
    rng = random.Random(seed)
    for way in WAYS:
        told = await fuzz(url, count // len(WAYS), rng, way)
        print(json.dumps({"way": way.name} | told), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
