"""A real server whose engine is simulated, and what can be watched of it from outside."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import numpy as np
from aiohttp import ClientSession

from engine.contract import Samples
from tests.callers import Caller, socket
from tests.serving import Server

LONG = [{"text": "wonderful " * 100}]
"""More than half a minute of a simulated voice."""


def simulated(log: Path, *flags: str, **options: Any) -> Server:
    """A server whose engine has ``options``."""
    engine = ("--engine.name", "simulated", "--engine.options", json.dumps(options))
    return Server(*engine, *flags, log=log)


@asynccontextmanager
async def talking(url: str) -> AsyncIterator[Caller]:
    """A session over a WebSocket, its microphone on."""
    async with socket(url, talks=True) as caller:
        yield caller


def tone(caller: Caller, seconds: float = 0.6) -> Samples:
    """What the simulated engine takes for speech."""
    at = np.arange(int(seconds * caller.microphone.rate))
    sound = 0.3 * np.sin(2 * np.pi * 440 * at / caller.microphone.rate)
    return np.asarray(sound, np.float32)


async def until(true: Callable[[], bool], within: float) -> float:
    """Waits; returns the seconds it took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < within, f"not within {within} s"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def free(server: Server, within: float) -> float:
    """Waits until every place is free; returns the seconds it took."""
    return await until(lambda: server.metric("parley_sessions_active") == 0, within)


async def ready(server: Server, within: float = 15.0) -> None:
    """Waits until callers are taken."""
    async with ClientSession() as web, asyncio.timeout(within):
        while True:
            async with web.get(urljoin(server.url, "ready")) as answer:
                if answer.status == 200:
                    return
            await asyncio.sleep(0.05)


def ends(server: Server) -> list[str]:
    """Why sessions ended, as the log says."""
    return [line["reason"] for line in server.log_lines() if line["event"] == "session ended"]
