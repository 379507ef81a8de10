"""The media workers, as the front sees them: started, watched, and started again.

A worker that ends, or says nothing for longer than the watchdog allows, is lost, and with it the
sessions that it had and no others: their sockets are closed with a reason, their places are free.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from typing import TYPE_CHECKING

import structlog

from engine.process import Backoff
from server.errors import ServiceError, unavailable
from server.places import RETRY_AFTER, OwnPlaces
from server.workers.handle import Worker
from server.workers.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from server.caller import Caller
    from server.observe import Metrics
    from server.settings import ServerSettings

_GRACE = 5.0
"""Seconds that it has to end when asked."""

log = structlog.get_logger("server.workers.pool")


class CannotStart(Exception):
    """A worker cannot be had; the message says which, and that its log tells more."""


class Pool:
    """All workers of this front.

    Args:
        folder: where the sockets are, the engine's too; nobody else's to look into.
        settings: the operator's.
        places: what the workers' sessions take.
        metrics: count the losses.
        check: raises where this process, and its engine, let no new session begin.
    """

    def __init__(
        self,
        folder: Path,
        settings: ServerSettings,
        places: OwnPlaces,
        metrics: Metrics,
        check: Callable[[], None],
    ) -> None:
        self._metrics = metrics
        self._check = check
        self._places = places
        self.workers = [
            Worker(Job(index, settings.of_worker(index), folder), places)
            for index in range(settings.media_workers)
        ]
        self._turns = itertools.count()
        self._keepers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Starts all; returns when they answer.

        Raises:
            CannotStart: one does not.
        """
        started = await asyncio.gather(*map(self._begin, self.workers), return_exceptions=True)
        for worker, problem in zip(self.workers, started, strict=True):
            if problem is not None:
                message = f"worker {worker.job.index} cannot be started; see its log"
                raise CannotStart(message) from problem

    async def drain(self, seconds: float) -> None:
        """Has no more callers taken; returns when all have left, or ``seconds`` are over."""
        await asyncio.gather(*(worker.drain(seconds) for worker in self.workers))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + 1.0):
                while any(worker.sessions for worker in self.workers):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Ends all."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(worker.stop(_GRACE) for worker in self.workers))

    def again(self, caller: Caller) -> None:
        """Counts that ``caller`` comes back to a session.

        Raises:
            ServiceError: they did so too often (429).
        """
        self._places.again(caller.names)

    def choose(self) -> Worker:
        """The worker for a new session.

        Raises:
            ServiceError: none takes any now.
        """
        try:
            self._check()
            free = self._free()
        except ServiceError as error:
            self._metrics.refused(error.code)
            raise
        turn = next(self._turns) % len(free)
        return min(free[turn:] + free[:turn], key=lambda worker: worker.sessions)

    @property
    def ready(self) -> bool:
        """Whether a caller would be served now, if a place is free."""
        return any(worker.ready for worker in self.workers)

    def told(self) -> list[dict[str, str | int]]:
        """How each worker does; ``busy`` says why no calls are brought to it, if so."""
        return [
            {"worker": w.job.index, "sessions": w.sessions, "busy": w.report.busy}
            for w in self.workers
        ]

    def _free(self) -> list[Worker]:
        if free := [w for w in self.workers if w.ready and not w.report.busy]:
            return free
        self._metrics.too_busy("workers")
        why = "; ".join(f"worker {w.job.index}: {w.report.busy}" for w in self.workers)
        raise unavailable("server_busy", f"no worker takes calls now ({why})", RETRY_AFTER)

    async def figures(self) -> dict[str, str]:
        """What each worker says of itself, in Prometheus' text format, by its number."""
        return {str(w.job.index): await w.figures() for w in self.workers if w.ready}

    async def _begin(self, worker: Worker) -> None:
        """Starts a worker, which is kept from then on, however long the others take."""
        await worker.start()
        self._keepers.append(asyncio.create_task(self._keep(worker)))

    async def _keep(self, worker: Worker) -> None:
        """Runs a worker, and starts it again when it is lost."""
        backoff = Backoff()
        while True:
            began = time.monotonic()
            if worker.ready:
                why = await worker.run()
                sessions = worker.sessions
                code = await worker.stop()
                self._metrics.fault("worker_lost")
                log.error(
                    "worker lost",
                    worker=worker.job.index,
                    reason=why,
                    exit_code=code,
                    sessions=sessions,
                )
                backoff.ran(time.monotonic() - began)
            await asyncio.sleep(backoff.wait())
            try:
                await worker.start()
            except (OSError, TimeoutError) as error:
                await worker.stop()
                log.error("worker cannot be started", worker=worker.job.index, exc_info=error)
