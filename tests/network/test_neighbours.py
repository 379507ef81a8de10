"""What one caller cannot do to another; a server that is full, or going."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from urllib.parse import urljoin

import numpy as np
from aiohttp import ClientSession

from tests.callers import Caller, call, socket
from tests.network.bare import OFFER, SDP
from tests.network.misbehaving import GARBAGE, RATE, misbehave
from tests.network.simulated import LONG, ends, free, simulated, talking, tone


def gaps(caller: Caller, since: float) -> np.ndarray:
    """Seconds between arrivals of sound on the track since a time."""
    return np.diff([at for at, _ in caller.heard if at >= since])


async def test_a_client_without_manners_disturbs_nobody_else(tmp_path: Path) -> None:
    with simulated(tmp_path / "log", mode="scripted", script=LONG) as server:
        async with call(server.url) as caller:
            caller.microphone.say(tone(caller))
            await caller.event("output_audio_buffer.started")
            began = time.monotonic()
            await asyncio.sleep(4)
            calm, began = gaps(caller, began), time.monotonic()
            answers = await misbehave(server)
            rough = gaps(caller, began)
            assert len(rough) > 50
            assert np.percentile(rough, 95) < max(0.06, 2 * np.percentile(calm, 95))
            assert rough.max() < max(0.25, 2 * calm.max())
            assert caller.strict.types.count("error") == 0
        assert answers["garbage"] == 1 + len(GARBAGE)
        assert answers["flood"] == 1 + RATE
        assert "protocol_error" in ends(server)


async def test_a_full_server_says_when_to_ask_again(tmp_path: Path) -> None:
    with simulated(tmp_path / "log", capacity=1) as server:
        async with socket(server.url), ClientSession() as web:
            calls = urljoin(server.url, "v1/realtime/calls")
            async with web.post(calls, data=OFFER, headers=SDP) as refused:
                assert refused.status == 503, await refused.text()
                assert int(refused.headers["Retry-After"]) >= 1
                assert (await refused.json())["error"]["code"] == "server_busy"
            async with web.ws_connect(urljoin(server.url, "v1/realtime")) as ws:
                assert (await ws.receive_json())["error"]["code"] == "server_busy"
                await ws.receive()
                assert ws.close_code == 1013
        assert server.metric("parley_refusals_total", code="server_busy") == 2
        await free(server, 1.0)
        async with socket(server.url):
            pass


async def test_a_server_told_to_go_lets_its_callers_finish(tmp_path: Path) -> None:
    with simulated(tmp_path / "log", mode="scripted", script=[{"text": "short " * 5}]) as server:
        async with talking(server.url) as caller, ClientSession() as web:
            os.kill(server.pid, signal.SIGTERM)
            async with web.get(urljoin(server.url, "ready")) as answer:
                assert answer.status == 503
                assert (await answer.json())["status"] == "draining"
            caller.microphone.say(tone(caller))
            assert (await caller.done())["status"] == "completed"
            async with web.ws_connect(urljoin(server.url, "v1/realtime")) as ws:
                assert (await ws.receive_json())["error"]["code"] == "server_draining"
        assert server.stop() == 0
        assert ends(server) == ["hangup"]
