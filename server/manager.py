"""The manager: who gets in, who is in, and how everybody gets out.

It owns the engine and the directory of calls. A place is taken before a caller is answered, and
freed on every way out, because freeing it is the one thing an ending session always does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf

import structlog

from engine.contract import Engine, EngineBusy, EngineInfo, EngineUnavailable
from server.caller import HERE, Caller
from server.errors import ServiceError, bad_request, refused, unavailable
from server.garbage import Leavings
from server.observe import Metrics
from server.overload import Overload
from server.pacer import Pacer
from server.places import RETRY_AFTER, OwnPlaces, Place, Places
from server.protocol.adapter import Opening, Terms
from server.requests import RequestError, SessionSettings
from server.resume import GONE, QUERY, Ticket, call_of, ticket
from server.settings import ServerSettings
from server.stay import TICK, Stay

Open = Callable[[str, Terms], Opening]
"""Makes the session of that id, on these terms; raises RequestError."""

WHY_GONE = {
    "displaced": "its place was needed for a new caller",
    "peer_lost": "it was waited for no longer",
}
"""Ends of a session that its lost caller is told of on coming back."""
_REMEMBERED = 1_024

log = structlog.get_logger("server.manager")


class Manager:
    """All sessions of this server.

    Args:
        engine: serves them.
        settings: the operator's.
        metrics: counts.
        places: where a place is taken from; by default its own.
        mark: stands in the ids of its sessions, for whoever has to find them.
    """

    def __init__(
        self,
        engine: Engine,
        settings: ServerSettings,
        metrics: Metrics,
        places: Places | None = None,
        mark: str = "",
    ) -> None:
        self.engine = engine
        self.draining = False
        self.overload = Overload(settings.limits.load)
        self.leavings = Leavings()
        self._settings = settings
        self._metrics = metrics
        self._pacer = Pacer(metrics)
        self._places = places or OwnPlaces(settings.limits, lambda: self.capacity)
        self._mark = mark
        self._stays: dict[str, Stay] = {}
        self._gone: dict[str, str] = {}  # why, by call
        self._clock: asyncio.Task[None] | None = None

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
        self._clock = asyncio.create_task(self._show_time(), name="clock")

    async def stop(self) -> None:
        """Ends every session and stops the engine."""
        self.draining = True
        await self._end_all("server_stopped")
        self._pacer.stop()
        if self._clock is not None:
            self._clock.cancel()
        await self.engine.stop()

    async def drain(self, seconds: float) -> None:
        """Takes no new callers and gives the ones here ``seconds`` to finish; then ends them."""
        self.draining = True
        log.info("draining", sessions=self.sessions, seconds=seconds)
        if self._stays:
            ends = [asyncio.ensure_future(stay.ended()) for stay in self._stays.values()]
            await asyncio.wait(ends, timeout=seconds)
        await self._end_all("drain")

    @property
    def busy(self) -> str:
        """Why new callers are refused although there may be places; empty where they are not."""
        return self.overload.busy.why if self.overload.busy else ""

    def check(self) -> None:
        """Refuses a new caller where none can be served, whether or not there are places.

        Raises:
            ServiceError: the service is going down or not ready, or has too much to do (503).
        """
        if self.draining:
            raise unavailable("server_draining", "the server is going down; call again later")
        if not self.ready:
            raise self._not_ready()
        if busy := self.overload.busy:
            self._metrics.too_busy(busy.reason)
            message = f"the server has too much to do ({busy.why}); call again later"
            raise unavailable("server_busy", message, RETRY_AFTER)

    def ticket(self, *, live: bool = False) -> Ticket:
        """What a session is known by, for those who are answered before it begins."""
        return ticket(self._mark, live=live)

    async def admit(
        self,
        open_: Open,
        ticket: Ticket | None = None,
        *,
        leg: bool = False,
        caller: Caller = HERE,
    ) -> Stay:
        """Takes a place for a caller.

        Args:
            open_: makes the session that the caller asks for.
            ticket: what it will be known by.
            leg: whether a leg will carry its sound.
            caller: whose session it is; only they find it again.

        Raises:
            ServiceError: the session cannot be had (400), the caller had as much as is allowed
                (429), no place is free, there is too much to do, or the service is not ready or
                going down.
        """
        try:
            self.check()
            place = await self._places.take(caller.names)
            if leg:
                self.overload.came()
            try:
                return await self._admit(open_, ticket or self.ticket(), leg, caller, place)
            except BaseException:
                place.end()
                if leg:
                    self.overload.failed()
                raise
        except ServiceError as error:
            self._metrics.refused(error.code)
            raise

    def find(self, call_id: str, caller: Caller = HERE) -> Stay | None:
        """The call of that id, while it runs, if it is one that ``caller`` reaches."""
        stay = self._stays.get(call_id)
        return stay if stay is not None and caller.reaches(stay.owner) else None

    def back(self, token: str, caller: Caller, *, live: bool, leg: bool) -> Stay:
        """The session that ``caller`` comes back to, by ``token``.

        Raises:
            ServiceError: there is none any more (404), it is no such session, or the caller came
                back too often (429).
        """
        self._places.again(caller.names)
        call_id = call_of(token)
        stay = self.find(call_id, caller)
        if stay is None or not stay.tokens.fits(token):
            why = WHY_GONE.get(self._gone.get(call_id, ""), "it has ended, or the token was used")
            raise bad_request(GONE, f"resume: no such session: {why}", QUERY, 404)
        if (stay.live, stay.transport == "webrtc") != (live, leg):
            protocol = "GPT-Live" if stay.live else "Realtime"
            message = f"resume: expected {protocol} over {stay.transport}, as the session began"
            raise bad_request("invalid_value", message, QUERY)
        return stay

    def terms(self, *, leg: bool = False) -> Terms:
        """What a session that begins now is offered."""
        return Terms(
            info=self.info,
            names=self._settings.names,
            settings=SessionSettings(instructions=self._settings.instructions, real_time=leg),
            expires_at=int(time.time() + self._longest),
            leg=leg,
            frame=self._settings.webrtc.sound.packet_ms / 1000,
        )

    @property
    def _longest(self) -> float:
        """Seconds that a session lasts at most."""
        return min(self._settings.limits.session, self.info.longest_session or inf)

    async def _admit(
        self, open_: Open, ticket: Ticket, leg: bool, caller: Caller, place: Place
    ) -> Stay:
        opening = self._opened(open_, ticket.session, leg)
        try:
            with structlog.contextvars.bound_contextvars(session=ticket.session):
                engine = await self.engine.open()
        except EngineBusy as busy:
            message = "the speech engine has no free place; call again later"
            raise unavailable("server_busy", message, busy.retry_after) from None
        except EngineUnavailable:
            raise self._not_ready() from None
        stay = Stay(
            ticket,
            engine,
            self.engine.info,
            self._settings,
            opening,
            longest=self._longest,
            leg=leg,
            owner=caller,
            place=place,
            pacer=self._pacer,
            metrics=self._metrics,
        )
        self._stays[stay.call_id] = stay
        stay.start(self._left)
        try:
            await stay.settle()
        except RequestError as error:
            await stay.end("refused")
            raise refused(error) from None
        except EngineUnavailable:
            await stay.end("engine_lost")
            raise self._not_ready() from None
        except BaseException:
            await stay.end("failed")
            raise
        return stay

    def _opened(self, open_: Open, session_id: str, leg: bool) -> Opening:
        try:
            return open_(session_id, self.terms(leg=leg))
        except RequestError as error:
            raise refused(error) from None

    def _not_ready(self) -> ServiceError:
        message = f"the speech engine is {self.engine.state}"
        return unavailable("engine_not_ready", message, RETRY_AFTER)

    async def _show_time(self) -> None:
        """Shows every session the clock: one timer, however many there are."""
        while True:
            await asyncio.sleep(TICK)
            now = time.monotonic_ns()
            for stay in tuple(self._stays.values()):
                if now >= stay.look_at:
                    stay.look(now)

    def _left(self, stay: Stay, reason: str) -> None:
        self._stays.pop(stay.call_id, None)
        self.leavings.ended(len(self._stays))
        if reason in WHY_GONE:
            self._gone[stay.call_id] = reason
        while len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]

    async def _end_all(self, reason: str) -> None:
        await asyncio.gather(*(stay.end(reason) for stay in tuple(self._stays.values())))
