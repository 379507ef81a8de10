"""The manager: who gets in, who is in, and how everybody gets out.

It owns the engine and the directory of calls. A place is taken before a caller is answered, and
freed on every way out, because freeing it is the one thing an ending session always does.
"""

from __future__ import annotations

import asyncio

import structlog

from engine.contract import Engine, EngineBusy, EngineInfo, EngineUnavailable
from server.errors import ServiceError, unavailable
from server.observe import Metrics
from server.pacer import Pacer
from server.replies import new_id
from server.settings import ServerSettings
from server.stay import Stay

RETRY_AFTER = 5.0
"""Seconds after which asking again makes sense when every place is taken."""

log = structlog.get_logger("server.manager")


class Manager:
    """All sessions of this server.

    Args:
        engine: serves them.
        settings: the operator's.
        metrics: counts.
    """

    def __init__(self, engine: Engine, settings: ServerSettings, metrics: Metrics) -> None:
        self.engine = engine
        self.draining = False
        self._settings = settings
        self._metrics = metrics
        self._pacer = Pacer()
        self._stays: dict[str, Stay] = {}
        self._arriving = 0

    @property
    def ready(self) -> bool:
        """Whether a caller would be served now, if a place is free."""
        return self.engine.state in ("ready", "degraded") and not self.draining

    @property
    def capacity(self) -> int:
        """Sessions at once."""
        own = self._settings.capacity
        carried = self.info.capacity
        return carried if own is None else min(own, carried)

    @property
    def info(self) -> EngineInfo:
        """The engine's facts.

        Raises:
            ServiceError: it has not told them yet.
        """
        try:
            return self.engine.info
        except EngineUnavailable:
            raise self._not_ready() from None

    @property
    def sessions(self) -> int:
        """Sessions now."""
        return len(self._stays)

    async def start(self) -> None:
        """Starts the engine; returns when callers can be served."""
        await self.engine.start()

    async def stop(self) -> None:
        """Ends every session and stops the engine."""
        self.draining = True
        await self._end_all("server_stopped")
        await self._pacer.stop()
        await self.engine.stop()

    async def drain(self, seconds: float) -> None:
        """Takes no new callers and gives the ones here ``seconds`` to finish; then ends them."""
        self.draining = True
        log.info("draining", sessions=self.sessions, seconds=seconds)
        if self._stays:
            ends = [asyncio.ensure_future(stay.ended()) for stay in self._stays.values()]
            await asyncio.wait(ends, timeout=seconds)
        await self._end_all("drain")

    async def admit(self, *, model: str, paced: bool) -> Stay:
        """Takes a place for a caller.

        Raises:
            ServiceError: no place is free, or the service is not ready or going down.
        """
        self._arriving += 1
        try:
            return await self._admit(model, paced)
        except ServiceError as error:
            self._metrics.refused(error.code)
            raise
        finally:
            self._arriving -= 1

    def find(self, call_id: str) -> Stay | None:
        """The call of that id, while it runs."""
        return self._stays.get(call_id)

    async def _admit(self, model: str, paced: bool) -> Stay:
        if self.draining:
            raise unavailable("server_draining", "the server is going down; call again later")
        if not self.ready:
            raise self._not_ready()
        if self.sessions + self._arriving > self.capacity:
            raise unavailable(
                "server_busy",
                f"all {self.capacity} places are taken; call again later",
                RETRY_AFTER,
            )
        session_id = new_id("sess")
        try:
            with structlog.contextvars.bound_contextvars(session=session_id):
                engine = await self.engine.open()
        except EngineBusy as busy:
            message = "the speech engine has no free place; call again later"
            raise unavailable("server_busy", message, busy.retry_after) from None
        except EngineUnavailable:
            raise self._not_ready() from None
        stay = Stay(
            session_id,
            engine,
            self.engine.info,
            self._settings,
            model=model,
            paced=paced,
            pacer=self._pacer,
            metrics=self._metrics,
        )
        self._stays[stay.call_id] = stay
        stay.start(self._left)
        return stay

    def _not_ready(self) -> ServiceError:
        message = f"the speech engine is {self.engine.state}"
        return unavailable("engine_not_ready", message, RETRY_AFTER)

    def _left(self, stay: Stay) -> None:
        self._stays.pop(stay.call_id, None)

    async def _end_all(self, reason: str) -> None:
        await asyncio.gather(*(stay.end(reason) for stay in tuple(self._stays.values())))
