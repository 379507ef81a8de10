"""``parley bench webrtc``: what calls cost, how steadily and how soon they are answered.

Callers say recorded speech in packets of 20 ms to ``parley serve``, whose simulated engine, in a
process of its own, returns each frame the moment it hears it; level by level, until one is not
clean (:mod:`server.bench.webrtc.level`) or callers are refused. A stock aiortc server that returns
what it hears is measured in the same run, at few callers. A server's front has one core; callers
and the engine have another, where there are two. Callers go before what else runs there, as those
of a network do; servers run as they always do, and nothing has a real-time priority.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.audio.resample import Resampler
from server.bench import duplex, machine
from server.bench.frames import RATE as SERVED
from server.bench.webrtc.crowd import Crowd, Refused
from server.bench.webrtc.lag import Lag
from server.bench.webrtc.level import CRITERIA, Level, Took, Verdict, level
from server.bench.webrtc.speech import RATE, Speech, speech

_STOCK = 10
"""Callers up to which stock aiortc is measured."""
_SILENT = 0.005
"""Peak below which the engine returns nothing, where callers pause."""
_TRIES = 2
"""A machine hiccups; a server that has too much to do does so again."""
_NICENESS = -10
"""Of the callers."""
_SETTLE = 2.0
_AGAIN = 5.0
"""Seconds after which a caller who is refused calls again, as servers say."""
_BETWEEN = 4.0
"""Seconds until all have left, and a server that had too much to do takes callers again."""
_CORES = sorted(os.sched_getaffinity(0))


class Server(NamedTuple):
    """A server that is measured; ``pid`` is its front."""

    name: str
    url: str
    pid: int

    def pin(self) -> None:
        """Gives each process its core."""
        machine.pin(os.getpid(), _CORES[-1])
        front, *engines = machine.family(self.pid)
        machine.pin(front, _CORES[0])
        for pid in engines:
            machine.pin(pid, _CORES[1 % len(_CORES)])


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; returns 1 where a budget is missed or the run is void."""
    parser = argparse.ArgumentParser(prog="parley bench webrtc", description=__doc__)
    parser.add_argument("--ramp", default="1,10,25,50", help="callers of each level")
    parser.add_argument("--talk", type=float, default=1.0, help="share of the time a caller talks")
    parser.add_argument("--seconds", type=float, default=10.0, help="counted of each level")
    parser.add_argument("--whole", action="store_true", help="go on after an unclean level")
    parser.add_argument("--recordings", type=Path, default=duplex.RECORDINGS, help="WAV files")
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args(arguments)
    machine.announce()
    print(CRITERIA)
    print(f"cores: a front {_CORES[0]}, callers {_CORES[-1]}, the engine {_CORES[1 % len(_CORES)]}")
    before = machine.cpu_times()
    ramp = [int(callers) for callers in given.ramp.split(",")]
    said = Resampler(SERVED, RATE).push(duplex.recorded(given.recordings))
    bench = _bench(speech(said, given.talk), ramp, given.talk, given.seconds, whole=given.whole)
    levels = asyncio.run(bench)
    told = Verdict.of(levels, given.talk)
    print(told.line())
    machine.conclude(before)
    if given.json:
        given.json.write_bytes(msgspec.json.encode({"verdict": told, "levels": levels}))
    return told.status


async def _bench(
    script: Speech, ramp: list[int], talk: float, seconds: float, *, whole: bool
) -> list[Level]:
    engine = {
        "replies": "by_itself",
        "threshold": 0.0 if talk >= 1 else _SILENT,
        "input_rate": SERVED,
        "output_rate": SERVED,
        "capacity": max(ramp),
    }
    ours = machine.started(*machine.parley(json.dumps(engine)))
    stock = machine.started("-m", "server.bench.webrtc.echo")
    async with ours as told, stock as stock_told:
        servers = [Server("parley", *told), Server("stock", *stock_told)]
        print("callers:", machine.hurry(_NICENESS))
        return _ramp(servers, script, ramp, seconds, whole=whole)


def _ramp(
    servers: Sequence[Server], script: Speech, ramp: list[int], seconds: float, *, whole: bool
) -> list[Level]:
    """Every level of ours, to the first that is not clean, and the first ones of the stock one."""
    levels: list[Level] = []
    for callers in ramp:
        for server in servers:
            if server.name == "stock" and callers > _STOCK:
                continue
            for _ in range(_TRIES):
                measured = _measured(server, script, callers, seconds)
                print(measured.line(), flush=True)
                time.sleep(_BETWEEN)
                if not measured.faults or server.name == "stock":
                    break
            levels.append(measured)
            unclean = measured.faults or measured.refused
            if server.name == "parley" and unclean and not whole:
                return levels
    return levels


def _measured(server: Server, script: Speech, callers: int, seconds: float) -> Level:
    server.pin()
    crowd = Crowd(server.url, script, callers)
    refused = gather(crowd, server.name, callers)
    crowd.run(time.monotonic() + _SETTLE)
    lag = Lag(server.url)
    times, used, began = machine.cpu_times(), _used(server.pid), time.monotonic()
    crowd.talk(seconds)
    passed = time.monotonic() - began
    front, engine, own = (
        (now - then) / passed for now, then in zip(_used(server.pid), used, strict=True)
    )
    family = list(machine.family(server.pid))
    took = Took(
        front=front,
        engine=engine,
        own=own,
        memory=sum(map(machine.memory, family)),
        threads=sum(map(machine.threads, family)),
        lag_p99=lag.p99(),
        stolen=machine.stolen(times, machine.cpu_times()),
        load=os.getloadavg()[0],
    )
    crowd.leave()
    return level(server.name, crowd.found(), crowd.late, took, refused)


def gather(crowd: Crowd, server: str, callers: int) -> int:
    """All call; who is refused calls again, as the server asks, while anybody is let in.

    Returns how many are not.
    """
    out = callers
    while True:
        refusals = []
        for _ in range(out):
            try:
                crowd.call()
            except Refused as refusal:
                refusals.append(str(refusal))
        if refusals:
            print(f"{server}, {len(refusals)} of {callers} callers refused: {refusals[0]}")
        if len(refusals) in (0, out):
            return len(refusals)
        out = len(refusals)
        crowd.run(time.monotonic() + _AGAIN)


def _used(pid: int) -> tuple[float, float, float]:
    """Seconds of CPU: of a server's front, of its children, and of this process."""
    front, *engines = map(machine.cpu, machine.family(pid))
    return front, sum(engines), time.process_time()
