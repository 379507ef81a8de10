"""A worker as the front sees it: whoever stops waiting for a place has none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from server.places import OwnPlaces
from server.settings import ServerSettings
from server.workers.handle import Worker
from server.workers.job import Job
from server.workers.lending import Lending
from server.workers.messages import End, FromFront, GiveUp, Keep, Offer, Refused, Take, Taken


@pytest.mark.parametrize("lost", [False, True], ids=["given up", "worker lost"])
async def test_a_place_that_is_waited_for_in_vain_is_lent_to_nobody(
    lost: bool, tmp_path: Path
) -> None:
    settings = ServerSettings()
    places = OwnPlaces(settings.limits, lambda: 1)
    worker = Worker(Job(0, settings, tmp_path), places)
    leaves = asyncio.Event()
    held = await places.take(())

    async def give_up() -> None:
        await leaves.wait()
        held.end()

    held.offer(give_up)
    await worker._received(Take(1, ()))
    await asyncio.sleep(0)
    if lost:
        await worker.stop()
    else:
        await worker._received(End(1))
    leaves.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert worker.sessions == 0
    held.end()
    assert await places.take(()) is not None


async def test_a_place_whose_caller_is_back_is_given_to_nobody_though_it_was_asked_back() -> None:
    told: asyncio.Queue[FromFront] = asyncio.Queue()

    async def tell(message: FromFront) -> None:
        told.put_nowait(message)

    lending = Lending(OwnPlaces(ServerSettings().limits, lambda: 1), tell)
    async with asyncio.timeout(15):
        await lending.received(Take(1, ()))
        assert await told.get() == Taken(1)
        await lending.received(Offer(1))
        await lending.received(Take(2, ()))
        assert await told.get() == GiveUp(1)
        await lending.received(Keep(1))
        refused = await told.get()
    assert isinstance(refused, Refused)
    assert (refused.number, refused.code) == (2, "server_busy")
    assert lending.lent == 1
