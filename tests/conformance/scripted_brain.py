"""A language model that answers as it is told: an OpenAI-compatible chat server on loopback.

It streams as such servers do and keeps every request, so a test sees what the model was shown. It
fails in all the ways that endpoints fail, too.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from aiohttp import web

from tests.sounds import hibari


@dataclass(frozen=True)
class Say:
    """Streams ``text`` a word at a time, one each ``pace`` seconds, and then ends as it should."""

    text: str
    pace: float = 0.01
    then: Literal["end", "stall", "die"] = "end"


@dataclass(frozen=True)
class Call:
    """Streams a tool call in fragments, behind ``text``."""

    name: str
    arguments: str
    call_id: str = "call_1"
    text: str = ""


@dataclass(frozen=True)
class Refuse:
    """Answers with an HTTP status and a page."""

    status: int = 500
    body: str = "the model is out of order"


@dataclass(frozen=True)
class Stall:
    """Takes the request and says nothing more."""


Answer: TypeAlias = Say | Call | Refuse | Stall


@dataclass
class Brain:
    """Answers with ``answers`` in order, then as ``otherwise`` says."""

    otherwise: Answer = field(default_factory=lambda: Say("Very well."))
    answers: deque[Answer] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)
    mute: bool = False
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def asked(self, times: int, within: float = 15.0) -> list[dict[str, str]]:
        """The messages of request number ``times``, from one, once it has come."""
        async with asyncio.timeout(within):
            while len(self.requests) < times:
                self._asked.clear()
                await self._asked.wait()
        messages: list[dict[str, str]] = self.requests[times - 1]["messages"]
        return messages

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """``POST /v1/chat/completions``."""
        self.requests.append(await request.json())
        self._asked.set()
        answer = self.answers.popleft() if self.answers else self.otherwise
        if isinstance(answer, Refuse):
            return web.Response(status=answer.status, text=answer.body)
        if isinstance(answer, Stall):
            await _stall()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if isinstance(answer, Say):
            await self._say(response, answer)
            if answer.then == "stall":
                await _stall()
            elif answer.then == "die":
                assert request.transport is not None
                request.transport.abort()
            else:
                await _end(response, "stop")
        elif isinstance(answer, Call):
            await self._call(response, answer)
        return response

    async def speak(self, request: web.Request) -> web.Response:
        """``POST /v1/audio/speech``: hibari's voice; a mute brain tells what it was to say."""
        text: str = (await request.json())["input"]
        if self.mute:
            return web.Response(status=500, text=text)
        pcm = await asyncio.to_thread(hibari, text)
        return web.Response(body=(pcm * 32767).astype("<i2").tobytes())

    async def _say(self, response: web.StreamResponse, answer: Say) -> None:
        for number, word in enumerate(answer.text.split()):
            await _put(response, {"content": f" {word}" if number else word})
            await asyncio.sleep(answer.pace)

    async def _call(self, response: web.StreamResponse, answer: Call) -> None:
        if answer.text:
            await _put(response, {"content": answer.text})
        function = {"name": answer.name, "arguments": ""}
        opening = {"index": 0, "id": answer.call_id, "type": "function", "function": function}
        await _put(response, {"tool_calls": [opening]})
        for at in range(0, len(answer.arguments), 7):
            fragment = {"index": 0, "function": {"arguments": answer.arguments[at : at + 7]}}
            await _put(response, {"tool_calls": [fragment]})
        await _end(response, "tool_calls")


def address() -> str:
    """The URL of a brain that is not there yet."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


@asynccontextmanager
async def brain(url: str, *answers: Answer) -> AsyncIterator[Brain]:
    """A running one at ``url``."""
    scripted = Brain(answers=deque(answers))
    app = web.Application()
    app.router.add_post("/v1/chat/completions", scripted.handle)
    app.router.add_post("/v1/audio/speech", scripted.speak)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", urlsplit(url).port, reuse_address=True).start()
    try:
        yield scripted
    finally:
        await runner.cleanup()


async def _stall() -> None:
    """Until the client hangs up."""
    await asyncio.Event().wait()


async def _put(response: web.StreamResponse, delta: dict[str, Any]) -> None:
    await _chunk(response, choices=[{"index": 0, "delta": delta, "finish_reason": None}])


async def _end(response: web.StreamResponse, reason: str) -> None:
    await _chunk(response, choices=[{"index": 0, "delta": {}, "finish_reason": reason}])
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    await _chunk(response, choices=[], usage=usage)
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()


async def _chunk(response: web.StreamResponse, **fields: Any) -> None:
    chunk = {"id": "chunk", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    await response.write(b"data: %s\n\n" % json.dumps(chunk | fields).encode())
