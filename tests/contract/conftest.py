"""Engines for the contract's tests: one of each case and border, started once for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from engine import registry
from engine.contract import Closed, Engine
from tests.contract.caller import Caller
from tests.contract.cases import CASES, Case

BORDERS = ("direct", "across")

Call: TypeAlias = Callable[..., Coroutine[Any, Any, Caller]]


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
async def engines() -> AsyncIterator[dict[tuple[str, str], Engine]]:
    """Every case on both sides of the border."""
    async with AsyncExitStack() as stack:
        yield {
            (case.name, border): await stack.enter_async_context(running(case, border))
            for case in CASES
            for border in BORDERS
        }


@pytest.fixture(params=BORDERS)
def border(request: pytest.FixtureRequest) -> str:
    """``direct`` or ``across``."""
    return str(request.param)


@pytest.fixture
def engine(engines: dict[tuple[str, str], Engine], case: Case, border: str) -> Engine:
    """The engine of the test's case and border."""
    return engines[case.name, border]


@pytest_asyncio.fixture(loop_scope="session")
async def call(engine: Engine) -> AsyncIterator[Call]:
    """Opens sessions, which are closed at the end; every one of them must have kept its replies."""
    callers: list[Caller] = []

    async def open_one(*, plays: bool = True) -> Caller:
        callers.append(Caller(await engine.open(), engine.info, plays=plays))
        return callers[-1]

    yield open_one
    for caller in callers:
        if not caller.of(Closed):
            await caller.close()
        caller.check_replies()
