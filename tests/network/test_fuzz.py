"""What no client should send hurts nobody: not the server, and not the caller next door."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.callers import call
from tests.conftest import Tell
from tests.network import fuzzing
from tests.network.simulated import free, simulated, tone
from tests.serving import Server

LONG = [{"text": "wonderful " * 5000}]
"""A reply that outlasts the longest fuzz."""
LATE, HICCUPS = 0.05, 2
"""How late in seconds frames of the neighbour's may be, and how many later than that, by what the
machine does: a loop that is held for 100 ms makes more of them late."""


@pytest.mark.parametrize(
    "inputs",
    [2000, pytest.param(20_000, marks=[pytest.mark.full, pytest.mark.timeout(600)])],
)
async def test_mutated_events_are_answered_and_a_neighbour_hears_nothing_of_it(
    inputs: int, tmp_path: Path, tell: Tell
) -> None:
    with simulated(tmp_path / "log", mode="scripted", script=LONG) as server:
        async with call(server.url) as neighbour:
            neighbour.microphone.say(tone(neighbour))
            await neighbour.event("output_audio_buffer.started")
            before = late(server)
            told = await fuzz(server, inputs)
            fuzzed = late(server) - before
            assert neighbour.strict.types.count("error") == 0
            assert not neighbour.closed.done()
        await free(server, 15)
        lines = server.log_lines()
    tell(
        f"{inputs} inputs: {told}; {fuzzed:g} of a neighbour's frames later than {1000 * LATE:g} ms"
    )
    assert sum(way["sent"] for way in told) == inputs
    assert all(way["errors"] > way["sent"] / 10 for way in told)
    assert all(way["ended"] == 0 for way in told)
    assert fuzzed <= HICCUPS
    assert [line for line in lines if line["level"] == "error"] == []


async def fuzz(server: Server, inputs: int) -> list[dict[str, Any]]:
    """Lets the client loose; returns what it tells."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", fuzzing.__name__, server.url, str(inputs), "1"),
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    return [json.loads(line) for line in told.splitlines()]


def late(server: Server) -> float:
    """How many frames were later than :data:`LATE` so far."""
    buckets = server.buckets("parley_frame_late_seconds")
    return buckets[float("inf")] - buckets[LATE]
