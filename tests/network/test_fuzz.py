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
CALM = 4.0
"""Seconds that the neighbour is watched without anybody else."""
SLACK = 0.045
"""Seconds that a frame of the neighbour's may be later than then, but for as many as
:data:`HICCUPS`: a loop that is held for 100 ms makes more of them late."""
HICCUPS = 2


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
            await asyncio.sleep(CALM)
            calm = latest(server)
            told = await fuzz(server, inputs)
            fuzzed = late(server, calm + SLACK)
            assert neighbour.strict.types.count("error") == 0
            assert not neighbour.closed.done()
        await free(server, 15)
        lines = server.log_lines()
    tell(
        f"{inputs} inputs: {told}; a neighbour's latest frame {1000 * calm:g} ms before; "
        f"{fuzzed:g} with them later than {1000 * (calm + SLACK):g} ms"
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


def latest(server: Server) -> float:
    """Seconds, at most, that any frame was late so far."""
    buckets = server.buckets("parley_frame_late_seconds")
    return min(le for le, count in buckets.items() if count == buckets[float("inf")])


def late(server: Server, limit: float) -> float:
    """How many frames were later than ``limit`` seconds so far, to the bucket's edge below."""
    buckets = server.buckets("parley_frame_late_seconds")
    return buckets[float("inf")] - max(count for le, count in buckets.items() if le <= limit)
