"""Who gets in: places are counted once, from the asking to the end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.contract import Applied, Close, Closed, Settings
from engine.outbox import Outbox
from engine.simulated.options import parse
from server.caller import HERE, Caller
from server.errors import ServiceError
from server.manager import Manager
from server.observe import Metrics
from server.overload import LOOKS, Look
from server.places import OwnPlaces
from server.protocol.live.config import config_of
from server.protocol.live.opening import wanted
from server.settings import Limits, ServerSettings
from server.workers.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.contract import Event, Order, Sound, State

PLACES = 3
LIVE = wanted(config_of({"model": "gpt-live-1"}, leg=False))


class Slow:
    """An engine of three places, and its sessions, which take their settings when told to."""

    info = parse({"replies": "by_itself", "tick": 1280, "capacity": PLACES}).info()
    state: State = "ready"
    room = 0

    def __init__(self) -> None:
        self.asked: list[tuple[Outbox, Settings]] = []
        self._outbox = Outbox()

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def figures(self) -> Mapping[str, float]:
        return {}

    async def open(self) -> Slow:
        session = Slow()
        session.asked = self.asked
        return session

    def hear(self, pcm: Sound) -> int:
        return 0

    def order(self, order: Order) -> None:
        if isinstance(order, Settings):
            self.asked.append((self._outbox, order))
        elif isinstance(order, Close):
            self._outbox.end(Closed(reason="closed", heard=0, dropped=0))

    def listen(self, told: Callable[[Event], None]) -> None:
        self._outbox.listen(told)


async def test_a_session_that_waits_for_its_settings_takes_one_place() -> None:
    engine = Slow()
    manager = Manager(engine, ServerSettings(), Metrics())
    arriving = [asyncio.create_task(manager.admit(LIVE)) for _ in range(PLACES)]
    async with asyncio.timeout(15):
        while len(engine.asked) < PLACES:  # noqa: ASYNC110 - the fake has no event
            await asyncio.sleep(0.01)
    with pytest.raises(ServiceError) as refused:
        await manager.admit(LIVE)
    assert refused.value.code == "server_busy"
    for outbox, settings in engine.asked:
        outbox.put(Applied(id=settings.id, effective=settings))
    async with asyncio.timeout(15):
        assert len(await asyncio.gather(*arriving)) == manager.sessions == PLACES
    await manager.stop()


def overloaded(manager: Manager) -> None:
    """Has its loop use a whole core for some seconds."""
    for at in range(1, LOOKS + 1):
        manager.overload.look(Look(at=0.1 * at, cpu=0.1 * at, late=0.0))


async def test_a_manager_with_too_much_to_do_refuses_newcomers_and_finds_who_is_there() -> None:
    engine, metrics = Slow(), Metrics()
    manager = Manager(engine, ServerSettings(), metrics)
    arriving = asyncio.create_task(manager.admit(LIVE))
    async with asyncio.timeout(15):
        while not engine.asked:  # noqa: ASYNC110 - the fake has no event
            await asyncio.sleep(0.01)
    (outbox, settings), *_ = engine.asked
    outbox.put(Applied(id=settings.id, effective=settings))
    stay = await arriving
    overloaded(manager)
    with pytest.raises(ServiceError, match="100% of a core") as refused:
        await manager.admit(LIVE)
    assert (refused.value.code, refused.value.status) == ("server_busy", 503)
    assert refused.value.retry_after
    assert metrics.value("parley_busy_refusals_total", reason="cpu") == 1
    assert manager.find(stay.call_id) is stay
    assert manager.back(stay.tokens.newest, HERE, live=True, leg=False) is stay
    assert (manager.ready, manager.sessions) == (True, 1)
    await manager.stop()


async def test_calls_that_come_at_once_are_counted_as_they_come() -> None:
    manager = Manager(Slow(), ServerSettings(capacity=PLACES), Metrics())
    for at in range(1, LOOKS + 1):
        manager.overload.look(Look(at=0.1 * at, cpu=0.084 * at, late=0.0))
    assert not manager.busy
    arriving = asyncio.create_task(manager.admit(LIVE, leg=True))
    await asyncio.sleep(0)
    assert "3% more by calls that have just come" in manager.busy
    arriving.cancel()
    await asyncio.gather(arriving, return_exceptions=True)
    assert not manager.busy, "it was not had"
    await manager.stop()


async def test_a_server_that_goes_or_has_no_engine_says_so_whatever_it_has_to_do() -> None:
    engine = Slow()
    manager = Manager(engine, ServerSettings(), Metrics())
    overloaded(manager)
    engine.state = "failed"
    with pytest.raises(ServiceError) as refused:
        manager.check()
    assert refused.value.code == "engine_not_ready"
    manager.draining = True
    with pytest.raises(ServiceError) as refused:
        manager.check()
    assert refused.value.code == "server_draining"
    await manager.stop()


async def test_who_comes_back_again_and_again_is_told_to_wait_with_workers_and_without() -> None:
    settings = ServerSettings(limits=Limits(caller_starts=2))
    caller = Caller(key="key_anna", address="192.0.2.1")
    manager = Manager(Slow(), settings, Metrics())
    pool = Pool(Path(), settings, OwnPlaces(settings.limits, lambda: 1), Metrics(), manager.check)
    codes = []
    for _ in range(3):
        with pytest.raises(ServiceError) as refused:
            manager.back("rtc_none.token", caller, live=False, leg=True)
        codes.append(refused.value.code)
    assert codes == ["session_gone", "session_gone", "rate_limit_exceeded"]
    for _ in range(2):
        pool.again(caller)
    with pytest.raises(ServiceError, match=r"limits\.caller_starts"):
        pool.again(caller)
    await manager.stop()
