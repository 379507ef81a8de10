"""``parley bench duplex``: how many callers stream both ways in time, beside a bare server.

Callers say recorded speech in real time, 80 ms at a time, to ``parley serve`` with the simulated
clocked engine, which gives each its own sound back at its next tick; level by level, until one is
not clean (:mod:`server.bench.level`). Over WebSockets an aiohttp server that moves the same frames
and does nothing else stands beside it in the same run. Either server has one core, and the callers
another one, where there are two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
from yarl import URL

from engine.audio.resample import Resampler
from engine.contract import Samples
from server.bench import corpus, machine
from server.bench.crowd import Crowd
from server.bench.frames import DIALECTS, FRAME, RATE, Speech
from server.bench.heard import Heard
from server.bench.level import CRITERIA, Level, Took, level

RECORDINGS = Path("/usr/share/pocketsphinx/test/data/librivox")
BUDGET = 0.5
"""Of the bare server's first level that is not clean."""
BUSY, LATE = 0.9, 0.005
"""A comparison holds if the bare server took so much of its core, and its callers were no later."""
TRIES = 2
"""A machine hiccups; a server that has too much to do does so again."""
_BETWEEN = 1.0
_CORES = sorted(os.sched_getaffinity(0))
"""As they were given to this process, before it took one of them."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is measured, and its processes."""

    name: str
    url: str
    front: int
    """The process with the sockets; an engine's is a child of it."""
    checks: bool
    """Whether it gives callers their own sound."""

    @property
    def engine(self) -> list[int]:
        """The engine's process, if it has one; another one after it was lost."""
        return list(machine.family(self.front))[1:]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        at = URL(self.url)
        assert at.host is not None
        assert at.port is not None
        return at.host, at.port


class Callers(Protocol):
    """All callers of one level."""

    heard: Heard

    async def gather(self) -> None:
        """They begin to talk; returns when it has settled."""

    async def talk(self, seconds: float) -> None:
        """They talk on, and what they hear is counted."""

    async def leave(self) -> None:
        """They hang up."""


Many = Callable[[Server, int], Callers]
"""Makes so many callers of a server."""


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; returns 1 where the first level is not clean or the budget is missed."""
    parser = argparse.ArgumentParser(prog="parley bench duplex", description=__doc__)
    parser.add_argument("--ramp", default="8,16,32,64", help="callers of each level")
    parser.add_argument("--protocol", choices=tuple(DIALECTS), default="live")
    parser.add_argument("--transport", choices=("websocket", "webrtc"), default="websocket")
    parser.add_argument("--seconds", type=float, default=10.0, help="counted of each level")
    parser.add_argument("--recordings", type=Path, default=RECORDINGS, help="folder with WAV files")
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args(arguments)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    machine.announce()
    print(CRITERIA)
    before = machine.cpu_times()
    ramp = [int(callers) for callers in given.ramp.split(",")]
    speech = recorded(given.recordings)
    many = _crowds(given.protocol, speech)
    if given.transport == "webrtc":
        many = _calls(given.protocol, speech)
    levels = asyncio.run(_bench(given.protocol, given.transport, many, ramp, given.seconds))
    told = Verdict.of(levels)
    print(told.line())
    machine.conclude(before)
    if given.json:
        given.json.write_bytes(msgspec.json.encode({"verdict": told, "levels": levels}))
    return told.status


def recorded(folder: Path) -> Samples:
    """All recordings one after the other, at 24 kHz; noise where there are none."""
    files = sorted(folder.glob("*.wav"))
    print("speech:", f"{len(files)} recordings of {folder}" if files else "none found; noise")
    if not files:
        return corpus.room(10 * RATE, np.random.default_rng(1)) * 100
    whole = np.concatenate([corpus.recorded(file) for file in files])
    return Resampler(corpus.RATE, RATE).push(whole)


def _crowds(protocol: str, speech: Samples) -> Many:
    dialect = DIALECTS[protocol]
    said = Speech(dialect, speech)

    def crowd(server: Server, callers: int) -> Crowd:
        return Crowd(server.address, dialect, said, callers, checks=server.checks)

    return crowd


def _calls(protocol: str, speech: Samples) -> Many:
    from server.bench.calls import RATE as CALLS
    from server.bench.calls import Calls

    said = Resampler(RATE, CALLS).push(speech)
    return lambda server, callers: Calls(server.url, protocol, said, callers)


async def _bench(
    protocol: str, transport: str, many: Many, ramp: list[int], seconds: float
) -> list[Level]:
    engine = {
        "replies": "by_itself",
        "tick": FRAME,
        "threshold": 0.0,
        "input_rate": RATE,
        "output_rate": RATE,
        "capacity": max(ramp),
    }
    parley = machine.started(*machine.parley(json.dumps(engine), *machine.TAKES_ALL))
    bare = machine.started("-m", "server.bench.bare", protocol)
    async with parley as (url, pid), bare as (bare_url, bare_pid):
        servers = [Server("parley", url, pid, checks=True)]
        if transport == "websocket":
            servers.append(Server("bare", bare_url, bare_pid, checks=False))
        print(_pin(servers))
        return await _ramp(servers, many, ramp, seconds)


def _pin(servers: Sequence[Server]) -> str:
    """Has all servers run on one core, the callers on another, and engines on a third or theirs."""
    fronts, here, engines = _CORES[0], _CORES[-1], _CORES[1 % len(_CORES)]
    machine.pin(os.getpid(), here)
    for server in servers:
        machine.pin(server.front, fronts)
        for pid in server.engine:
            machine.pin(pid, engines)
    return f"cores: either server {fronts}, callers {here}, the engine's process {engines}"


async def _ramp(
    servers: Sequence[Server], many: Many, ramp: list[int], seconds: float
) -> list[Level]:
    """Every level of each server, to its first that is not clean."""
    levels: list[Level] = []
    left = list(servers)
    for callers in ramp:
        for server in tuple(left):
            for _ in range(TRIES):
                measured = await _measure(server, many(server, callers), callers, seconds)
                print(measured.line(), flush=True)
                await asyncio.sleep(_BETWEEN)
                if not measured.faults:
                    break
            levels.append(measured)
            if measured.faults:
                left.remove(server)
    return levels


async def _measure(server: Server, crowd: Callers, callers: int, seconds: float) -> Level:
    _pin([server])
    await crowd.gather()
    took = _watch(server)
    await crowd.talk(seconds)
    measured = level(server.name, callers, crowd.heard, took())
    await crowd.leave()
    return measured


def _watch(server: Server) -> Callable[[], Took]:
    """Begins to watch a server's processes, and this one; what it returns says what they took."""

    engines = server.engine

    def used() -> tuple[float, float, float, float]:
        engine = sum(map(machine.cpu, engines))
        return time.monotonic(), machine.cpu(server.front), engine, time.process_time()

    before, times = used(), machine.cpu_times()

    def took() -> Took:
        passed, *cores = (now - then for now, then in zip(used(), before, strict=True))
        front, engine, own = (seconds / passed for seconds in cores)
        memory = sum(map(machine.memory, (server.front, *engines)))
        stolen = machine.stolen(times, machine.cpu_times())
        return Took(front=front, engine=engine, memory=memory, stolen=stolen, own_cpu=own)

    return took


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a run comes to; None: no level was unclean."""

    clean: int
    """Callers of the last level that was."""
    parley: int | None
    bare: int | None
    void: str
    """Why there is no comparison, if there is none."""

    @classmethod
    def of(cls, levels: Sequence[Level]) -> Verdict:
        """What ``levels`` come to."""
        unclean = {each.server: each for each in levels if each.faults}
        clean = [e.callers for e in levels if e.server == "parley" and not e.faults]
        parley, bare = unclean.get("parley"), unclean.get("bare")
        if bare is None:
            void = "no level of the bare server was unclean"
        elif bare.front < BUSY:
            void = f"the bare server took {100 * bare.front:.0f} % of its core"
        elif bare.own_late_p99 > LATE:
            void = f"the callers themselves were late by {1000 * bare.own_late_p99:.1f} ms"
        else:
            void = ""
        return cls(
            clean=max(clean, default=0),
            parley=parley.callers if parley else None,
            bare=bare.callers if bare else None,
            void=void,
        )

    @property
    def status(self) -> int:
        """What the command returns."""
        missed = not self.void and self.parley and self.bare and self.parley < BUDGET * self.bare
        return 1 if missed or not self.clean else 0

    def line(self) -> str:
        """For people."""
        told = f"clean up to {self.clean} callers; first unclean level: {self.parley or 'none'}"
        if self.void:
            return f"{told}; comparison void: {self.void}"
        ratio = f", {self.parley / (self.bare or 1):.2f} of it" if self.parley else ""
        return f"{told}, of the bare server {self.bare}{ratio} (budget {BUDGET:g})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
