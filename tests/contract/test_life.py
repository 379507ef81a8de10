"""Places, faults and what is left behind: nobody is left in silence, and nothing grows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.contract import (
    Applied,
    Closed,
    Engine,
    EngineBusy,
    EngineError,
    EngineUnavailable,
    Fault,
    ReplyAudio,
    ReplyEnded,
    Respond,
    SessionEnded,
)
from engine.reading import read
from engine.remote.proxy import RemoteEngine
from tests.contract.caller import Caller
from tests.contract.cases import CASES, CLOCKED, ECHO, SIMULATED, UNCLOCKED, Case, on, tone
from tests.contract.conftest import Call, running

pytestmark = [pytest.mark.asyncio(loop_scope="session")]
every = on(*CASES)
simulated = on(*SIMULATED)
echo = on(ECHO)


@contextlib.asynccontextmanager
async def lively(**options: Any) -> AsyncIterator[tuple[RemoteEngine, Caller]]:
    """An echo in a process of its own with a short watchdog, and a caller of it."""
    engine = RemoteEngine("simulated", options, watchdog=0.8)
    await engine.start()
    try:
        caller = Caller(await engine.open(), engine.info)
        await caller.settle()
        yield engine, caller
    finally:
        await engine.stop()


async def ready(engine: Engine, within: float = 10.0) -> None:
    """Waits until an engine takes callers again."""
    async with asyncio.timeout(within):
        while engine.state != "ready":  # noqa: ASYNC110 - the contract has no event for it
            await asyncio.sleep(0.02)


@every
async def test_a_full_engine_is_busy_until_a_place_is_free(call: Call, engine: Engine) -> None:
    callers = [await call() for _ in range(engine.info.capacity)]
    with pytest.raises(EngineBusy) as busy:
        await engine.open()
    assert busy.value.retry_after > 0
    await callers[0].close()
    await call()


@echo
async def test_an_engine_that_does_not_run_takes_nobody(case: Case, border: str) -> None:
    async with running(case, border) as engine:
        await engine.stop()
        with pytest.raises(EngineUnavailable):
            await engine.open()
        await engine.stop()


@simulated
async def test_sound_that_is_not_a_number_ends_its_reply_and_nothing_else(
    case: Case, border: str
) -> None:
    async with running(case, border, faults=[{"kind": "nan", "after": 0.1}]) as engine:
        caller = Caller(await engine.open(), engine.info)
        await caller.settle()
        await caller.speak()
        if case.told:
            caller.order(Respond(reply="r", revision=0, verbatim="This breaks amid the reply."))
        fault = await caller.until(Fault)
        if case.told:
            caller.order(Respond(reply="s", revision=0, verbatim="This does not."))
        await caller.speak()
        await asyncio.sleep(0.2)
        await caller.close()
    assert fault.code == "engine_nan"
    assert len(caller.of(Fault)) == 1
    assert all(np.isfinite(event.pcm).all() for event in caller.of(ReplyAudio))
    assert {ended.reason for ended in caller.of(ReplyEnded)} >= {"completed"}
    caller.check_replies()


async def test_a_crash_is_told_within_two_seconds_and_the_engine_comes_back() -> None:
    async with lively(faults=[{"kind": "crash", "after": 0.3}]) as (engine, caller):
        caller.plays = False  # the reply must not end before
        caller.order(Respond(reply="r", revision=0, verbatim="word " * 100))
        await caller.until(ReplyAudio)
        before = engine.pid
        began = time.monotonic()
        with contextlib.suppress(SessionEnded):
            await caller.offer(tone(0.4, engine.info.input_rate))
        closed = await caller.ended(2.0)
        assert time.monotonic() - began < 2.0
        assert closed.reason == "engine_lost"
        assert [fault.code for fault in caller.of(Fault)] == ["engine_lost"]
        assert [ended.reason for ended in caller.of(ReplyEnded)] == ["failed"]
        assert closed.heard == caller.offered
        assert engine.state != "ready"
        with pytest.raises(EngineUnavailable):
            await engine.open()
        await ready(engine)
        assert engine.pid not in (before, None)
        assert engine.figures()["losses"] == 1
        again = Caller(await engine.open(), engine.info)
        await again.settle()
        await again.close()


async def test_a_crash_without_a_border_ends_the_session() -> None:
    async with running(ECHO, "direct", faults=[{"kind": "crash", "after": 0.3}]) as engine:
        caller = Caller(await engine.open(), engine.info)
        with contextlib.suppress(SessionEnded):
            await caller.offer(tone(0.4, engine.info.input_rate))
        closed = await caller.ended()
        assert closed.reason == "engine_failed"
        assert [fault.code for fault in caller.of(Fault)] == ["engine_failed"]
        await Caller(await engine.open(), engine.info).close()


async def test_an_engine_that_takes_no_sound_is_found_by_the_watchdog() -> None:
    async with lively(faults=[{"kind": "stall", "after": 0.2}]) as (engine, caller):
        began = time.monotonic()
        with contextlib.suppress(SessionEnded):
            while time.monotonic() - began < 4.0:
                caller.session.hear(tone(0.02, engine.info.input_rate))
                await asyncio.sleep(0.02)
        closed = await caller.ended()
        assert closed.reason == "engine_lost"
        assert time.monotonic() - began < 0.2 + 0.5 + 0.8 + 1.0
        await ready(engine)


async def test_a_process_whose_loop_is_blocked_is_found_by_the_watchdog() -> None:
    async with lively() as (engine, caller):
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGSTOP)
        began = time.monotonic()
        closed = await caller.ended()
        assert closed.reason == "engine_lost"
        assert 0.5 < time.monotonic() - began < 2.0
        await ready(engine)


async def test_a_quiet_caller_is_no_stall() -> None:
    async with lively(replies="by_itself", tick=1280) as (engine, caller):
        await caller.offer(tone(0.05, engine.info.input_rate))
        await asyncio.sleep(1.2)
        await caller.offer(tone(0.05, engine.info.input_rate))
        assert not caller.of(Closed)
        assert engine.figures()["losses"] == 0


async def test_an_engine_that_cannot_start_says_why() -> None:
    engine = RemoteEngine("simulated", {"tikc": 1})
    with pytest.raises(EngineError, match="tikc"):
        await engine.start()
    engine = RemoteEngine("nobody", {})
    with pytest.raises(EngineError, match="expected one of cascade, duplex, simulated, got nobody"):
        await engine.start()
    assert engine.state == "failed"


async def test_a_process_that_dies_at_its_start_says_how() -> None:
    engine = RemoteEngine("simulated", {})
    starting = asyncio.create_task(engine.start())
    while engine.pid is None:  # noqa: ASYNC110 - the test must act before it has started
        await asyncio.sleep(0)
    os.kill(engine.pid, signal.SIGKILL)
    with pytest.raises(EngineError, match="its process ended with exit code -9"):
        await starting


async def test_a_process_ends_with_its_parent() -> None:
    program = (
        "import asyncio, os, signal\n"
        "from engine.remote.proxy import RemoteEngine\n"
        "async def main():\n"
        "    engine = RemoteEngine('simulated', {})\n"
        "    await engine.start()\n"
        "    print(engine.pid, flush=True)\n"
        "    os._exit(0)\n"
        "asyncio.run(main())\n"
    )
    run = [sys.executable, "-c", program]
    told = await asyncio.to_thread(
        subprocess.run,
        run,
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "PYTHONPATH": "."},
    )
    async with asyncio.timeout(2.0):
        while runs(int(told.stdout)):  # noqa: ASYNC110 - it is no child of ours
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("border", ["direct", "across"])
async def test_events_that_nobody_reads_end_the_session(border: str) -> None:
    async with running(UNCLOCKED, border, ahead=1000.0, threshold=0.0) as engine:
        session = await engine.open()
        second = tone(1.0, engine.info.input_rate)
        with contextlib.suppress(SessionEnded):
            for _ in range(4000):  # some hundred are enough, at the speed of this machine
                session.hear(second)
                await asyncio.sleep(0.005)
        with pytest.raises(SessionEnded) as ended:
            session.hear(second)
        assert ended.value.closed.reason == "engine_failed"
        unread = [event async for event in read(session)]
        assert [event.code for event in unread if isinstance(event, Fault)] == ["events_unread"]
        assert isinstance(unread[-1], Closed)
        await Caller(await engine.open(), engine.info).close()


async def test_an_opening_that_is_given_up_takes_no_place() -> None:
    async with running(ECHO, "across", capacity=1) as engine:
        opening = asyncio.create_task(engine.open())
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.sleep(0.2)
        await Caller(await engine.open(), engine.info).close()


@on(ECHO, CLOCKED)
async def test_fifty_sessions_leave_nothing_behind(case: Case, engine: Engine, border: str) -> None:
    async def stay() -> None:
        caller = Caller(await engine.open(), engine.info)
        await caller.settle()
        if case.told:
            caller.order(Respond(reply="r", revision=0, verbatim="One two three four five six."))
            await caller.until(ReplyAudio)
        await caller.close()

    await stay()
    await asyncio.sleep(0.1)
    before = belongings(engine)
    for _ in range(50):
        await stay()
    await asyncio.sleep(0.3)
    assert belongings(engine) == before


def belongings(engine: Engine) -> tuple[int, ...]:
    """Tasks, threads and file descriptors here, and threads and descriptors of its process."""
    ours = (len(asyncio.all_tasks()), threading.active_count(), count("/proc/self/fd"))
    if not isinstance(engine, RemoteEngine):
        return ours
    return (*ours, count(f"/proc/{engine.pid}/task"), count(f"/proc/{engine.pid}/fd"))


def count(folder: str) -> int:
    """The entries of a folder."""
    return len(list(Path(folder).iterdir()))


def runs(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@every
async def test_the_first_event_is_the_answer_to_the_first_settings(call: Call) -> None:
    caller = await call()
    await caller.settle()
    assert [event for event in caller.events if not isinstance(event, ReplyAudio)] == caller.of(
        Applied
    )
