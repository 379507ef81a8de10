"""A client without manners, as a process of its own: ``python -m tests.network.misbehaving URL``.

It sends garbage, then ten thousand events within a second, then an event that is too long, each on
a session of its own, and prints how many events each was answered with.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from urllib.parse import urljoin

from aiohttp import ClientSession, ClientWebSocketResponse

from tests.serving import Server

GARBAGE = ("", "{", "[]", "null", '{"type":7}', '{"type":"no.such"}', "\x00", "[" * 100_000)
RATE = 10_000
HUGE = 21 * 2**20
"""Bytes; an event may have 20 MiB."""


async def misbehave(server: Server) -> dict[str, int]:
    """Lets the client without manners loose; returns the answers to each of its attacks."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", __name__, urljoin(server.url, "v1/realtime")),
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    return dict(json.loads(line) for line in told.splitlines())


async def main(url: str) -> None:
    async with ClientSession() as web:
        for attack in (garbage, flood, huge):
            async with web.ws_connect(url) as ws:
                print(json.dumps([attack.__name__, await attack(ws)]), flush=True)


async def garbage(ws: ClientWebSocketResponse) -> int:
    for text in GARBAGE:
        await ws.send_str(text)
    return len([await ws.receive_json() for _ in ("session.created", *GARBAGE)])


async def flood(ws: ClientWebSocketResponse) -> int:
    event = json.dumps({"type": "conversation.item.retrieve", "item_id": "none"})
    began = time.monotonic()
    for number in range(RATE):
        await ws.send_str(event)
        if number % 100 == 0:
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
    return len([await ws.receive_json() for _ in range(RATE + 1)])


async def huge(ws: ClientWebSocketResponse) -> int:
    with contextlib.suppress(ConnectionError):
        await ws.send_str("x" * HUGE)
    return len([message async for message in ws])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
