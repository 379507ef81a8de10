"""The front and its workers: who gets the next session, and who is told that nobody can have it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from server.errors import ServiceError, unavailable
from server.observe import Metrics
from server.places import OwnPlaces
from server.settings import ServerSettings
from server.workers.handle import Worker
from server.workers.messages import End, Report, Take
from server.workers.pool import Pool


def nothing() -> None:
    pass


def pool(tmp_path: Path, *busy: str, check: Any = nothing) -> tuple[Pool, Metrics]:
    """A pool whose workers answer, and say why they take no calls, if so."""
    settings, metrics = ServerSettings(media_workers=len(busy)), Metrics()
    made = Pool(tmp_path, settings, OwnPlaces(settings.limits, lambda: 9), metrics, check)
    there: Any = object()  # Of a connection it is only asked whether there is one.
    for worker, why in zip(made.workers, busy, strict=True):
        worker._control = there
        worker.report = Report({}, why)
    return made, metrics


def test_a_worker_with_too_much_to_do_gets_no_session_while_another_takes_some(
    tmp_path: Path,
) -> None:
    made, _ = pool(tmp_path, "91% of a core is in use", "", "its loop wakes 120 ms late")
    assert {made.choose().job.index for _ in range(6)} == {1}
    assert made.ready


def test_only_where_all_have_too_much_to_do_newcomers_are_told_why(tmp_path: Path) -> None:
    made, metrics = pool(tmp_path, "91% of a core is in use", "its loop wakes 120 ms late")
    with pytest.raises(ServiceError, match=r"91%.*120 ms") as refused:
        made.choose()
    assert (refused.value.code, refused.value.status) == ("server_busy", 503)
    assert refused.value.retry_after
    assert metrics.value("parley_busy_refusals_total", reason="workers") == 1
    assert metrics.value("parley_refusals_total", code="server_busy") == 1
    assert made.ready, "those who have a session are served"


@pytest.mark.parametrize("code", ["server_busy", "server_draining", "engine_not_ready"])
def test_what_keeps_the_front_from_serving_is_told_as_it_is(tmp_path: Path, code: str) -> None:
    def check() -> None:
        raise unavailable(code, "why")

    made, metrics = pool(tmp_path, "its engine is failed", "", check=check)
    with pytest.raises(ServiceError, match="why") as refused:
        made.choose()
    assert refused.value.code == code
    assert metrics.value("parley_refusals_total", code=code) == 1
    assert metrics.value("parley_busy_refusals_total", reason="workers") == 0


async def test_a_drain_waits_for_a_session_whose_place_was_lent_just_now(tmp_path: Path) -> None:
    made, _ = pool(tmp_path, "")
    (worker,) = made.workers
    worker._control = None
    await worker._received(Take(1, ()))
    draining = asyncio.create_task(made.drain(60.0))
    await asyncio.wait([draining], timeout=0.2)
    assert not draining.done()
    await worker._received(End(1))
    async with asyncio.timeout(15):
        await draining


async def test_calls_are_taken_by_the_worker_that_has_started_while_others_have_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = pool(tmp_path, "", "")
    (first, second), kept, never = made.workers, asyncio.Event(), asyncio.Event()
    second._control = None

    async def start(worker: Worker) -> None:
        if worker is second:
            await never.wait()

    async def run(worker: Worker) -> str:
        kept.set()
        await never.wait()
        return ""

    monkeypatch.setattr(Worker, "start", start)
    monkeypatch.setattr(Worker, "run", run)
    starting = asyncio.create_task(made.start())
    async with asyncio.timeout(15):
        await kept.wait()
    assert not starting.done()
    assert made.ready
    assert made.choose() is first
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    first._control = None
    await made.stop()
