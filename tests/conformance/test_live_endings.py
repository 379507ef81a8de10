"""How sessions of GPT-Live end when their client does not end them: told, and with a reason."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.protocol.live.adapter import LiveAdapter
from tests.conformance.live_callers import LiveCaller, live, live_call, unstarted, watching
from tests.conformance.test_live_refusals import CLOCKED, LIVE, at
from tests.network.simulated import ready, simulated
from tests.service import service


async def ends(caller: LiveCaller, reason: str, *codes: str, close: int) -> None:
    """Waits for the end of a session: the errors that explain it, then how and why it closes."""
    closed = await caller.event("session.closed")
    assert closed["reason"] == reason
    assert tuple(error["code"] for error in caller.strict.errors) == codes
    assert all(error["type"] == "server_error" for error in caller.strict.errors)
    assert await asyncio.wait_for(caller.closed, 15) == close
    caller.strict.finish()


async def test_a_session_that_is_as_old_as_may_be_expires() -> None:
    async with service(limits={"session": 0.5}) as now, live(at(now)) as caller:
        await ends(caller, "expired", close=1000)
    async with (
        service(simulated=CLOCKED | {"longest_session": 0.5}) as now,
        live(at(now)) as caller,
    ):
        await caller.event("session.closed")
    assert caller.strict.events[-1]["reason"] == "expired"


async def test_a_session_in_which_nothing_happens_ends_and_says_why() -> None:
    async with service(limits={"idle": 0.5}) as now, live(at(now)) as caller:
        await ends(caller, "expired", "idle_timeout", close=1000)


async def test_a_server_that_goes_down_says_so_and_starts_nothing_more() -> None:
    async with service() as now, live(at(now)) as caller, live_call(at(now)) as other:
        async with unstarted(at(now)) as late, watching(at(now), caller.id) as sideband:
            await now.manager.drain(0.0)
            await ends(caller, "connection_lost", "server_draining", close=1001)
            await sideband.event("session.closed")
            error = await late.refused("session.start", session=LIVE)
            assert (error["type"], error["code"]) == ("server_error", "server_draining")
        assert (await other.event("session.closed"))["reason"] == "connection_lost"


@pytest.mark.parametrize("engine", [{}, CLOCKED], ids=["told", "clocked"])
async def test_a_failing_engine_is_told_as_an_error_before_the_session_closes(
    engine: dict[str, Any],
) -> None:
    """P36."""
    faults = [{"kind": "crash", "after": 0.2}]
    async with (
        service(simulated=engine | {"faults": faults}) as now,
        live(at(now)) as caller,
        watching(at(now), caller.id) as sideband,
    ):
        await caller.append(np.full(12_000, 0.3, np.float32))
        closed = await caller.event("session.closed")
        assert (closed["reason"], closed["session"]["id"]) == ("connection_lost", caller.id)
        assert await asyncio.wait_for(caller.closed, 15) == 1011
        await sideband.event("session.closed")
    for each in (caller, sideband):
        assert each.strict.errors[-1]["code"] == "engine_failed"
        assert {error["type"] for error in each.strict.errors} == {"server_error"}


async def test_a_failing_server_is_told_as_an_error_before_the_session_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P36."""

    def fail(self: LiveAdapter, happening: object) -> None:
        monkeypatch.undo()
        raise RuntimeError("on purpose")

    async with service() as now, live(at(now)) as caller:
        monkeypatch.setattr(LiveAdapter, "_sounded", fail)
        await ends(caller, "connection_lost", "internal_error", close=1011)


async def test_an_engine_that_dies_is_told_and_a_server_that_ends_waits_for_nobody(
    tmp_path: Path,
) -> None:
    """P36."""
    faults = [{"kind": "crash", "after": 0.2}]
    with simulated(tmp_path / "log", "--limits.drain", "0", faults=faults) as server:
        async with live(server.url) as caller, live_call(server.url) as other:
            await caller.append(np.full(12_000, 0.3, np.float32))
            await ends(caller, "connection_lost", "engine_lost", close=1011)
            await other.event("session.closed")
            assert [error["type"] for error in other.strict.errors] == ["server_error"]
        await ready(server)
        async with unstarted(server.url) as late, live(server.url) as caller:
            assert await asyncio.to_thread(server.stop, 4.0) == 0
            assert await asyncio.wait_for(late.closed, 15) == 1001
            await ends(caller, "connection_lost", "server_draining", close=1001)
