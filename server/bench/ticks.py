"""``parley bench ticks``: whether one clock serves many callers in time, on one core.

The simulated duplex engine runs in this process, which is pinned to a core. Each session is sent
20 ms pieces of a sound of its own in real time and is listened to; every frame that
comes back is compared with what that session sent. A tick that would begin a whole period late is
skipped, so ticks skipped are ticks late.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from engine import registry
from engine.audio.pcm import Int16
from engine.contract import (
    Closed,
    Engine,
    EngineError,
    EngineSession,
    Event,
    ReplyAudio,
    Settings,
    Sound,
)
from server import logs
from server.bench import machine

RATE, FRAME, PIECE = 16_000, 1280, 320
"""Samples per second, tick and piece."""
BUDGET = 0.015
"""Seconds that a tick may begin late, p99."""
_WARM = 5
"""Frames that each session is sent before it speaks."""
_PATIENCE = 30.0


class Ear:
    """One session: it says its own piece over and over, and counts what comes back of that."""

    def __init__(self, session: EngineSession, number: int) -> None:
        own = np.random.default_rng(number).integers(1, 1 << 15, PIECE)
        self.piece: Int16 = own.astype(np.int16)
        self.hear = session.hear
        self._frame = self.piece.tobytes() * (FRAME // PIECE)
        self.came = self.wrong = 0
        self.times: list[float] = []
        """When each frame came."""
        self.over = asyncio.Event()
        session.listen(self._take)

    def _take(self, event: Event) -> None:
        if isinstance(event, ReplyAudio):
            self.times.append(time.monotonic())
            if not self.came % PIECE and event.pcm.tobytes() == self._frame:
                self.came += FRAME
            elif event.pcm.any():
                self._compare(event.pcm[event.pcm != 0.0])
        elif isinstance(event, Closed):
            self.over.set()

    def _compare(self, pcm: Sound) -> None:
        """Compares what a frame holds beside silence with what is to come next."""
        due = np.resize(np.roll(self.piece, -(self.came % PIECE)), len(pcm))
        self.wrong += not np.array_equal(pcm, due)
        self.came += len(pcm)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured; times in seconds."""

    sessions: int
    seconds: float
    ticks: int
    late: int
    """Ticks that were skipped, because they would have begun a whole period late."""
    lateness_p50: float
    lateness_p99: float
    lateness_max: float
    took_p50: float
    took_p99: float
    cores: float
    """CPU of the process, in seconds per second."""
    gap_p99: float
    gap_max: float
    """Between two frames, as they come."""
    frames: int
    wrong: int
    missing: float
    """Seconds of sound that did not come back."""


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; returns 1 where a tick was late, or a frame was not its session's own."""
    parser = argparse.ArgumentParser(prog="parley bench ticks", description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000, help="sessions at once")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds that they speak")
    parser.add_argument(
        "--tick-cost",
        type=_cost,
        default=(0.0, 0.0),
        metavar="BASE,EACH",
        help="seconds that the simulated device takes for a tick, and for each session more",
    )
    parser.add_argument("--json", type=Path, help="write the result here")
    given = parser.parse_args(arguments)
    logs.configure("warning")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    machine.announce()
    before = machine.cpu_times()
    options = {
        "replies": "by_itself",
        "tick": FRAME,
        "tick_cost": given.tick_cost,
        "input_rate": RATE,
        "output_rate": RATE,
        "capacity": given.sessions,
        "ahead": given.seconds + _PATIENCE,
        "room": _PATIENCE,
    }
    engine = registry.create("simulated", options, own_process=False)
    try:
        result = asyncio.run(_bench(engine, given.sessions, given.seconds))
    except EngineError as problem:
        print(f"parley: {problem}")
        return 1
    _show(result)
    machine.conclude(before)
    if given.json:
        given.json.write_bytes(msgspec.json.encode(result))
    return 1 if result.late or result.wrong or result.missing else 0


def _cost(text: str) -> tuple[float, float]:
    base, each = text.split(",")
    return float(base), float(each)


async def _bench(engine: Engine, sessions: int, seconds: float) -> Result:
    await engine.start()
    try:
        opened = await asyncio.gather(*(engine.open() for _ in range(sessions)))
        ears = [Ear(session, number) for number, session in enumerate(opened)]
        for session in opened:
            session.order(Settings(id="first"))
        result = await _measure(engine, ears, seconds)
    finally:
        await engine.stop()
    for ear in ears:
        await ear.over.wait()
    return result


async def _measure(engine: Engine, ears: Sequence[Ear], seconds: float) -> Result:
    await _until(lambda: all(len(ear.times) >= _WARM for ear in ears))
    for ear in ears:
        ear.times.clear()
    before, began, used = engine.figures(), time.monotonic(), time.process_time()
    said = await _talk(ears, seconds)
    took, used = time.monotonic() - began, time.process_time() - used
    await _until(lambda: all(ear.came >= said for ear in ears))
    after = engine.figures()
    gaps = np.concatenate([np.diff(ear.times) for ear in ears])
    return Result(
        sessions=len(ears),
        seconds=took,
        ticks=int(after["ticks"] - before["ticks"]),
        late=int(after["ticks_skipped"] - before["ticks_skipped"]),
        lateness_p50=after["tick_late_p50_seconds"],
        lateness_p99=after["tick_late_p99_seconds"],
        lateness_max=after["tick_late_max_seconds"],
        took_p50=after["tick_took_p50_seconds"],
        took_p99=after["tick_took_p99_seconds"],
        cores=used / took,
        gap_p99=float(np.percentile(gaps, 99)),
        gap_max=float(gaps.max()),
        frames=sum(len(ear.times) for ear in ears),
        wrong=sum(ear.wrong for ear in ears),
        missing=sum(said - ear.came for ear in ears) / RATE,
    )


async def _talk(ears: Sequence[Ear], seconds: float) -> int:
    """All say a piece whenever one is due; returns the samples that each has said."""
    began, pieces = time.monotonic(), round(seconds * RATE / PIECE)
    for piece in range(pieces):
        await asyncio.sleep(max(0.0, began + piece * PIECE / RATE - time.monotonic()))
        for ear in ears:
            ear.hear(ear.piece)
    return pieces * PIECE


async def _until(true: Callable[[], bool]) -> None:
    """Waits, but not for ever: what has not come then is missing."""
    deadline = time.monotonic() + _PATIENCE
    while not true() and time.monotonic() < deadline:  # noqa: ASYNC110 - counts have no event
        await asyncio.sleep(0.1)


def _show(result: Result) -> None:
    r = result
    print(
        f"{r.sessions} sessions, {r.seconds:.0f} s: {r.ticks} ticks, {r.late} late; began late "
        f"p50 {1000 * r.lateness_p50:.1f} ms, p99 {1000 * r.lateness_p99:.1f} ms (budget "
        f"{1000 * BUDGET:g}), most {1000 * r.lateness_max:.1f} ms; took p50 "
        f"{1000 * r.took_p50:.1f} ms, p99 {1000 * r.took_p99:.1f} ms"
    )
    print(
        f"{100 * r.cores:.0f} % of one core; between two frames p99 {1000 * r.gap_p99:.0f} ms, "
        f"most {1000 * r.gap_max:.0f} ms; {r.frames} frames checked, {r.wrong} wrong, "
        f"{r.missing:g} s of sound missing"
    )
