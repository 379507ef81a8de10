"""Small HTTP servers that play an operator's endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Reply = Callable[[web.StreamResponse], Awaitable[None]]


class Served:
    """What an endpoint was asked, and when its caller went away."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.left = asyncio.Event()


@asynccontextmanager
async def endpoint(
    path: str, reply: Reply, status: int = 200, method: str = "POST"
) -> AsyncIterator[Served]:
    """Serves ``path`` on a free port of this machine."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.can_read_body:
            served.bodies.append(await request.json())
        served.keys.append(request.headers.get("Authorization", ""))
        response = web.StreamResponse(status=status, headers={"Location": "/elsewhere"})
        await response.prepare(request)
        try:
            await reply(response)
        except (asyncio.CancelledError, ConnectionError):
            served.left.set()
            raise
        return response

    app = web.Application()
    app.router.add_route(method, path, handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    served = Served(f"http://{host}:{port}/v1")
    try:
        yield served
    finally:
        await runner.cleanup()


def events(*chunks: dict[str, Any] | str, pause: float = 0) -> Reply:
    """Sends server-sent events, a text as it is; in two halves, to be no line's length."""

    async def reply(response: web.StreamResponse) -> None:
        for chunk in chunks:
            data = chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}\n\n"
            half = len(data) // 2
            await response.write(data[:half].encode())
            await asyncio.sleep(pause)
            await response.write(data[half:].encode())

    return reply


async def never(response: web.StreamResponse) -> None:
    """Says nothing for ever."""
    await asyncio.Event().wait()


async def breaks_off(response: web.StreamResponse) -> None:
    """Cuts the connection amid the answer."""
    await response.write(b'data: {"choices": [{"delta": {"content": "Hello"}}]}\n\n')
    assert response._req is not None
    assert response._req.transport is not None
    response._req.transport.abort()
