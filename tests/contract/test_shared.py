"""One engine's process, shared by several servers: places are everybody's, faults are nobody's."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from engine import registry
from engine.contract import Closed, Engine, EngineBusy, EngineError, Fault
from engine.remote.proxy import RemoteEngine
from tests.contract.caller import Caller
from tests.contract.cases import CLOCKED, tone

pytestmark = [pytest.mark.asyncio(loop_scope="session")]

PATIENCE = 15.0
OPTIONS = {"capacity": 2}


@asynccontextmanager
async def shared(doors: Path, servers: int) -> AsyncIterator[tuple[RemoteEngine, list[Engine]]]:
    """An engine with a process of its own, and how ``servers`` others see it."""
    async with AsyncExitStack() as stack:
        owner = registry.create("simulated", OPTIONS, own_process=True, doors=doors)
        assert isinstance(owner, RemoteEngine)
        others = [registry.join("simulated", OPTIONS, doors) for _ in range(servers)]
        for engine in (owner, *others):
            await engine.start()
            stack.push_async_callback(engine.stop)
        yield owner, others


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.02)


async def test_every_server_is_served_and_all_share_the_places(tmp_path: Path) -> None:
    async with shared(tmp_path, 2) as (owner, (first, second)):
        assert first.info == second.info == owner.info
        callers = [Caller(await engine.open(), engine.info) for engine in (first, second)]
        for caller in callers:
            await caller.settle()
            caller.session.hear(tone(0.5, caller.info.input_rate))
        with pytest.raises(EngineBusy):
            await owner.open()
        for caller in callers:
            await caller.close()
        await Caller(await owner.open(), owner.info).close()


async def test_a_server_that_goes_without_a_word_frees_its_places(tmp_path: Path) -> None:
    async with shared(tmp_path, 1) as (owner, (guest,)):
        sessions = [await guest.open(), await guest.open()]
        assert len(sessions) == 2
        await guest.stop()

        async def free() -> None:
            while True:
                try:
                    caller = Caller(await owner.open(), owner.info)
                except EngineBusy:
                    await asyncio.sleep(0.02)
                else:
                    await caller.close()
                    return

        await asyncio.wait_for(free(), PATIENCE)


async def test_a_lost_process_is_told_to_every_server_and_found_again(tmp_path: Path) -> None:
    async with shared(tmp_path, 2) as (owner, others):
        callers = [Caller(await engine.open(), engine.info) for engine in others]
        assert owner.pid is not None
        os.kill(owner.pid, signal.SIGKILL)
        for caller in callers:
            assert (await caller.until(Closed)).reason == "engine_lost"
            assert caller.of(Fault)[0].code == "engine_lost"
        await until(lambda: all(engine.state == "ready" for engine in (owner, *others)))
        for engine in (owner, *others):
            await Caller(await engine.open(), engine.info).close()


async def test_an_engine_that_nobody_has_started_cannot_be_joined(tmp_path: Path) -> None:
    engine = registry.join("simulated", {}, tmp_path)
    with pytest.raises(EngineError, match="No such file"):
        await engine.start()
    assert engine.state == "failed"


async def test_a_transcriber_is_shared_beside_its_model(tmp_path: Path) -> None:
    options = CLOCKED.options | {"transcriber": {"name": "simulated"}}
    owner = registry.create("simulated", options, own_process=True, doors=tmp_path)
    guest = registry.join("simulated", options, tmp_path)
    await owner.start()
    await guest.start()
    assert guest.info.can.transcripts
    await Caller(await guest.open(), guest.info).close()
    await guest.stop()
    await owner.stop()
