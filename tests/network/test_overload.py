"""A server that has too much to do refuses newcomers, says why, and serves those whom it has."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import numpy as np
from aiohttp import ClientSession

from tests.callers import call, socket, stopped
from tests.conformance.live_callers import unstarted
from tests.network.bare import OFFER, SDP
from tests.network.simulated import LONG, simulated, tone
from tests.serving import Server

MOST = 0.15
"""Share of a core, which a client without manners soon takes and a call alone does not."""
BURST, EVERY = 200, 0.02
WITHIN = 60.0
IN_TIME = 0.1
"""Seconds from one packet of a neighbour's reply to the next; wide, for other work delays them."""


@asynccontextmanager
async def flooded(url: str) -> AsyncIterator[None]:
    """A client of that server sends thousands of events a second, and reads what comes back."""
    event = json.dumps({"type": "conversation.item.retrieve", "item_id": "none"})
    async with ClientSession() as web, web.ws_connect(urljoin(url, "v1/realtime")) as ws:

        async def read() -> None:
            async for _ in ws:
                pass

        async def send() -> None:
            while True:
                for _ in range(BURST):
                    await ws.send_str(event)
                await asyncio.sleep(EVERY)

        tasks = [asyncio.create_task(each()) for each in (read, send)]
        try:
            yield
        finally:
            await stopped(tasks)


async def health(server: Server, *, busy: bool) -> dict[str, Any]:
    """What the server says of itself, once it is ``busy`` or is no more."""
    async with ClientSession(server.url) as web, asyncio.timeout(WITHIN):
        while True:
            async with web.get("/health") as answer:
                told: dict[str, Any] = await answer.json()
            if bool(told["busy"]) == busy:
                return told
            await asyncio.sleep(0.1)


async def test_too_much_to_do_is_said_to_newcomers_and_felt_by_nobody_else(
    tmp_path: Path,
) -> None:
    flags = ("--limits.load", str(MOST))
    with simulated(tmp_path / "log", *flags, mode="scripted", script=LONG) as server:
        async with call(server.url) as caller:
            caller.microphone.say(tone(caller))
            await caller.event("output_audio_buffer.started")
            async with flooded(server.url):
                told = await health(server, busy=True)
                assert (told["status"], f"at most {MOST:.0%}" in told["busy"]) == ("ok", True)
                began = time.monotonic()
                await refused_everywhere(server)
                call_id = caller.location.rpartition("/")[2]
                async with socket(server.url, query=f"call_id={call_id}"):
                    await asyncio.sleep(0.5)
                heard = [at for at, _ in caller.heard if at >= began]
                assert np.median(np.diff(heard)) < IN_TIME
            assert caller.strict.types.count("error") == 0
        assert server.metric("parley_busy", reason="cpu") == 1
        await health(server, busy=False)
        async with socket(server.url):
            pass
        assert server.metric("parley_busy") == 0
        assert server.metric("parley_busy_refusals_total", reason="cpu") == 3
        assert server.metric("parley_refusals_total", code="server_busy") == 3
        lines = [line["event"] for line in server.log_lines()]
        assert (
            lines.count("no new callers are taken") == lines.count("callers are taken again") == 1
        )


async def refused_everywhere(server: Server) -> None:
    """A call, a Realtime socket and a Live one are each refused, and told why."""
    async with ClientSession(server.url) as web:
        async with web.post("/v1/realtime/calls", data=OFFER, headers=SDP) as answer:
            assert answer.status == 503, await answer.text()
            assert int(answer.headers["Retry-After"]) >= 1
            assert (await answer.json())["error"]["code"] == "server_busy"
        async with web.ws_connect("/v1/realtime") as ws:
            assert (await ws.receive_json())["error"]["code"] == "server_busy"
            await ws.receive()
            assert ws.close_code == 1013
    async with unstarted(server.url) as live:
        error = await live.refused("session.start", session={"model": "gpt-live-1"})
        assert (error["type"], error["code"]) == ("server_error", "server_busy")
        assert "too much to do" in error["message"]
