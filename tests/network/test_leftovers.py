"""What sessions leave behind in the server's process: after one look of the collector, nothing."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter

import numpy as np
import pytest

from server.bench.webrtc.crowd import Crowd
from server.bench.webrtc.speech import RATE, speech
from tests.callers import socket
from tests.service import Service, service

ROOMS = ("server.", "engine.", "aiortc.", "aioice.", "pylibsrtp.", "OpenSSL.", "aiohttp.")


async def call(running: Service, *, goodbye: bool) -> None:
    """A caller over WebRTC, on a thread of its own."""

    def come_and_go() -> None:
        crowd = Crowd(url, speech(np.full(RATE, 0.1, np.float32), 1.0), 1)
        crowd.part(crowd.call(), goodbye=goodbye)

    url = str(running.caller.make_url("/"))
    await asyncio.to_thread(come_and_go)


async def everybody(running: Service) -> Counter[str]:
    """Two calls and a socket come and go; returns what is left, by type."""
    await call(running, goodbye=True)
    await call(running, goodbye=False)
    async with socket(str(running.caller.make_url("/"))):
        pass
    async with asyncio.timeout(20):
        while running.manager.sessions:  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(0.05)
    await asyncio.sleep(1)  # the last of a connection's tasks
    gc.collect()
    kinds = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    return Counter(kind for kind in kinds if kind.startswith(ROOMS))


@pytest.mark.timeout(90)
async def test_of_a_session_that_has_ended_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.transport.webrtc.peer._SILENCE", 1.0)
    async with service(simulated={"replies": "by_itself"}, limits={"grace": 0}) as running:
        before = await everybody(running)
        assert not await everybody(running) - before
