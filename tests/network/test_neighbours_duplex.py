"""Callers of one model that listens and speaks at once: what one does leaves no gap in another's.

The model is simulated and says what it hears, a frame at each tick of 80 ms. The neighbour hands
over all that it has to say at once, so that nobody but the service can be late.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urljoin

import numpy as np
from aiohttp import ClientSession

from tests.callers import SOCKET_RATE, Caller, socket, stopped
from tests.conformance.bursts import append, silence, tone
from tests.conformance.strict import StrictClient
from tests.network.bare import pour, upgraded
from tests.network.misbehaving import misbehave
from tests.network.simulated import ends, simulated

CLOCKED = {"replies": "by_itself", "tick": 1280}
FRAME = SOCKET_RATE * 80 // 1000
SPOKEN = 3.0
"""Seconds that the neighbour speaks."""


async def heard_whole(caller: Caller) -> None:
    """Says something and hears all of it, in one piece."""
    await caller.update(tracing="auto")  # a model begins with its settings
    await append(caller, tone(SPOKEN) + silence(0.7))
    response = await caller.done(60)
    assert response["status"] == "completed"
    (item,) = response["output"]
    pcm = np.abs(np.frombuffer(caller.strict.sound[item["id"]], "<i2").astype(np.int32))
    frames = pcm[: len(pcm) // FRAME * FRAME].reshape(-1, FRAME).max(axis=1)
    loud = np.flatnonzero(frames > 4000)
    assert (np.diff(loud) == 1).all()
    assert abs(len(loud) * FRAME / SOCKET_RATE - SPOKEN) <= 0.16


async def test_a_caller_who_floods_and_does_not_read_leaves_no_gap_in_anothers_stream(
    tmp_path: Path,
) -> None:
    with simulated(tmp_path / "log", **CLOCKED) as server:
        async with upgraded(server.url) as greedy, socket(server.url) as neighbour:
            pouring = asyncio.create_task(pour(greedy))
            await heard_whole(neighbour)
            assert not pouring.done()
            await stopped([pouring])
            neighbour.strict.finish()
            assert "error" not in neighbour.strict.types


async def test_a_caller_without_manners_leaves_no_gap_in_anothers_stream(tmp_path: Path) -> None:
    """Garbage, ten thousand events in a second, an event that is too long."""
    with simulated(tmp_path / "log", **CLOCKED) as server:
        async with socket(server.url) as neighbour:
            speaking = asyncio.create_task(heard_whole(neighbour))
            await misbehave(server)
            await speaking
            neighbour.strict.finish()
            assert "error" not in neighbour.strict.types
        assert "protocol_error" in ends(server)


async def test_a_caller_who_stops_reading_leaves_no_gap_and_is_told_all_in_the_end(
    tmp_path: Path,
) -> None:
    with simulated(tmp_path / "log", **CLOCKED) as server:
        async with (
            socket(server.url) as neighbour,
            ClientSession() as web,
            web.ws_connect(urljoin(server.url, "v1/realtime")) as deaf,
        ):
            strict = StrictClient()
            speaking = Caller(deaf.send_json, paced=False, rate=SOCKET_RATE)
            await speaking.send("session.update", session={"type": "realtime"})
            for _ in range(3):
                await append(speaking, tone(1.0) + silence(0.7))
            await heard_whole(neighbour)
            while strict.types.count("response.done") < 3:
                strict.see(await deaf.receive_str(timeout=15))
            strict.finish()
