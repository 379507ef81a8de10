"""Engines for the contract's tests: one of each case and border, started when first needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from engine import registry
from engine.contract import Closed, Engine
from tests.contract.caller import Caller
from tests.contract.cases import Case

BORDERS = ("direct", "across")

Call: TypeAlias = Callable[..., Coroutine[Any, Any, Caller]]
EngineOf: TypeAlias = Callable[[Case, str], Coroutine[Any, Any, Engine]]


@asynccontextmanager
async def running(case: Case, border: str, **options: Any) -> AsyncIterator[Engine]:
    """A started engine, stopped at the end."""
    engine = registry.create(case.engine, case.options | options, own_process=border == "across")
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def engine_of() -> AsyncIterator[EngineOf]:
    """Gives the one engine of a case and border: a run without the weights loads no models."""
    async with AsyncExitStack() as stack:
        engines: dict[tuple[str, str], Engine] = {}

        async def started(case: Case, border: str) -> Engine:
            if (case.name, border) not in engines:
                engine = await stack.enter_async_context(running(case, border))
                engines[case.name, border] = engine
            return engines[case.name, border]

        yield started


@pytest.fixture(params=BORDERS)
def border(request: pytest.FixtureRequest) -> str:
    """``direct`` or ``across``."""
    return str(request.param)


@pytest_asyncio.fixture(loop_scope="session")
async def engine(engine_of: EngineOf, case: Case, border: str) -> Engine:
    """The engine of the test's case and border."""
    return await engine_of(case, border)


@pytest_asyncio.fixture(loop_scope="session")
async def call(engine: Engine, case: Case) -> AsyncIterator[Call]:
    """Opens sessions, which are closed at the end; every one of them must have kept its replies."""
    callers: list[Caller] = []

    async def open_one(*, plays: bool = True) -> Caller:
        callers.append(Caller(await engine.open(), engine.info, case, plays=plays))
        return callers[-1]

    yield open_one
    for caller in callers:
        if not caller.of(Closed):
            await caller.close()
        caller.check_replies()
