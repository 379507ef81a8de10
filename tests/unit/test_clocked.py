"""The simulated model on the duplex loop: what its slots say, and its faults."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from engine.contract import (
    Applied,
    Closed,
    Engine,
    EngineSession,
    Event,
    Fault,
    ReplyText,
    Settings,
)
from engine.duplex import loop
from engine.duplex.options import Choices
from engine.reading import read
from engine.simulated import create
from engine.simulated.clocked import Echoes
from engine.simulated.options import parse

TICK = 320
CLOCKED = {"replies": "by_itself", "tick": TICK, "capacity": 3}
LOUD = np.full(TICK, 0.5, np.float32)


def batch(**options: Any) -> Echoes:
    """A batch of three whose slots all run; their frames are as long out as in."""
    made = Echoes(parse(CLOCKED | {"output_rate": 16000} | options), TICK, TICK)
    for _ in range(3):
        slot = made.join()
        assert slot is not None
        made.begin(slot, Choices())
    return made


def tick(made: Echoes, *levels: float) -> None:
    """Each slot hears a frame of a level of its own."""
    made.pcm[:] = np.array(levels, np.float32)[:, None]
    made.tick(np.ones(3, np.bool_))


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Engine]:
    engine = create(CLOCKED | options)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


async def settled(engine: Engine) -> EngineSession:
    session = await engine.open()
    session.order(Settings(id="first"))
    return session


async def until_closed(session: EngineSession) -> list[Event]:
    async with asyncio.timeout(15.0):
        return [event async for event in read(session)]


def test_each_slot_says_what_it_hears_and_a_word_where_sound_begins() -> None:
    made = batch()
    words = []
    for levels in ((0.1, 0.0, 0.3), (0.2, 0.0, 0.4), (0.0, 0.5, 0.0), (0.1, 0.5, 0.0)):
        tick(made, *levels)
        assert made.heard[:, -1] == pytest.approx(levels)
        words.append(made.tokens[:, 0].tolist())
    assert words == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [2, 0, 0]]


def test_other_rates_are_resampled_in_each_slot_by_itself() -> None:
    made = Echoes(parse(CLOCKED), TICK, TICK * 3 // 2)
    for slot in range(3):
        made.begin(slot, Choices())
    for _ in range(3):
        tick(made, 0.1, 0.0, 0.3)
    assert made.heard[:, -1] == pytest.approx((0.1, 0.0, 0.3), abs=1e-3)


def test_a_fault_strikes_only_the_slot_that_has_heard_enough() -> None:
    made = batch(faults=[{"kind": "nan", "after": 0.04}])
    tick(made, 0.1, 0.0, 0.3)
    assert np.isfinite(made.heard).all()
    tick(made, 0.1, 0.1, 0.0)
    assert np.isnan(made.heard).any(axis=1).tolist() == [True, False, False]
    tick(made, 0.1, 0.1, 0.1)
    assert np.isnan(made.heard).any(axis=1).tolist() == [False, True, True]


def test_a_tick_takes_what_it_is_told_to() -> None:
    made = batch(tick_cost=(0.01, 0.02))
    began = time.monotonic()
    tick(made, 0.0, 0.0, 0.0)
    assert time.monotonic() - began >= 0.07


async def test_a_crash_ends_every_session_and_the_engine_comes_back() -> None:
    async with running(faults=[{"kind": "crash", "after": 0.02}]) as engine:
        speaks, silent = await settled(engine), await settled(engine)
        async with asyncio.timeout(15.0):
            while not engine.figures()["faults"]:
                speaks.hear(LOUD)
                await asyncio.sleep(0.02)
        for session in (speaks, silent):
            *_, fault, closed = await until_closed(session)
            assert isinstance(fault, Fault) and isinstance(closed, Closed)
            assert (fault.code, closed.reason) == ("engine_failed", "engine_failed")
        async with asyncio.timeout(15.0):
            while engine.state != "ready":  # noqa: ASYNC110 - the contract has no event for it
                await asyncio.sleep(0.02)
        await settled(engine)


async def test_an_engine_that_stands_still_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", 0.2)
    async with running(faults=[{"kind": "stall", "after": 0.02}]) as engine:
        session = await settled(engine)
        room = session.room
        async with asyncio.timeout(15.0):
            while session.room > room - 20 * TICK:
                session.hear(LOUD)
                await asyncio.sleep(0.02)
    closed = (await until_closed(session))[-1]
    assert isinstance(closed, Closed) and closed.reason == "closed"


async def test_a_call_ends_at_its_longest_and_has_said_its_word() -> None:
    async with running(longest_session=0.5) as engine:
        session = await settled(engine)
        for _ in range(10):
            session.hear(LOUD)
        *events, closed = await until_closed(session)
    assert isinstance(closed, Closed) and closed.reason == "too_long"
    assert any(isinstance(event, Applied) for event in events)
    assert [event.text for event in events if isinstance(event, ReplyText)] == ["sound 1"]


def test_it_is_served_without_pytorch() -> None:
    program = (
        "import asyncio, sys\n"
        "from engine import registry\n"
        "async def main():\n"
        f"    engine = registry.create('simulated', {CLOCKED}, own_process=False)\n"
        "    await engine.start()\n"
        "    await engine.open()\n"
        "    await engine.stop()\n"
        "asyncio.run(main())\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": "."})
