"""A worker's side of its connection with the front: places, and reports.

Limits hold for all workers together, so a place is asked for in front; how much sound a session has
heard is reported, and what its caller owes is what the front said last.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from aiohttp import WSMsgType, web

from server.errors import unavailable
from server.places import Place
from server.workers import messages
from server.workers.messages import (
    Drain,
    End,
    FromFront,
    GiveUp,
    Keep,
    Offer,
    Owing,
    Refused,
    Report,
    Take,
    Taken,
)

_REPORT = 0.1
"""Seconds between two reports."""


class Desk:
    """The places of one worker, which the front gives.

    Args:
        busy: why no calls should be brought here now; empty where they may.
        drain: called when no more should, with the seconds that those here may finish in.
    """

    def __init__(self, busy: Callable[[], str], drain: Callable[[float], None]) -> None:
        self._busy = busy
        self._drain = drain
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[None]] = {}
        self._lent: dict[int, _Lent] = {}
        self._outbox: asyncio.Queue[messages.FromWorker] = asyncio.Queue()
        self._giving_up: set[asyncio.Future[None]] = set()
        self.over = asyncio.Event()
        """Set when the front has gone."""

    async def take(self, names: tuple[str, ...]) -> Place:
        """See :class:`server.places.Places`."""
        if self.over.is_set():
            raise unavailable("server_draining", "the server is going down; call again later")
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self._outbox.put_nowait(Take(number, names))
        try:
            await answer
        except BaseException:
            self._outbox.put_nowait(End(number))
            raise
        finally:
            del self._asked[number]
        place = self._lent[number] = _Lent(number, self._outbox.put_nowait, self._lent)
        return place

    def again(self, names: tuple[str, ...]) -> None:
        """See :class:`server.places.Places`; the front has counted it when the request came."""

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """The front's connection, for as long as it lasts."""
        front = web.WebSocketResponse(compress=False)
        await front.prepare(request)
        telling = [asyncio.create_task(work) for work in (self._reports(), self._tell(front))]
        try:
            async for message in front:
                if message.type is WSMsgType.TEXT:
                    self._received(messages.from_front.decode(message.data))
        finally:
            for task in telling:
                task.cancel()
            self.over.set()
        return front

    def _received(self, message: FromFront) -> None:
        match message:
            case Taken() | Refused():
                answer = self._asked.get(message.number)
                if answer is None or answer.done():
                    return
                if isinstance(message, Taken):
                    answer.set_result(None)
                else:
                    answer.set_exception(message.error())
            case Owing():
                for number, lent in self._lent.items():
                    lent.debt = message.debts.get(number, 0.0)
            case GiveUp():
                place = self._lent.get(message.number)
                if place is not None and place.give_up is not None:
                    task = asyncio.ensure_future(place.give_up())
                    self._giving_up.add(task)
                    task.add_done_callback(self._giving_up.discard)
            case Drain():
                self._drain(message.seconds)

    async def _reports(self) -> None:
        while True:
            heard = {n: place.news() for n, place in self._lent.items() if place.has_news}
            self._outbox.put_nowait(Report(heard, self._busy()))
            await asyncio.sleep(_REPORT)

    async def _tell(self, front: web.WebSocketResponse) -> None:
        while True:
            await front.send_str(messages.text(await self._outbox.get()))


class _Lent:
    """A place that the front gave, and those that are lent with it.

    ``debt``: seconds until its caller has paid; ``give_up``: ends its session, while it is offered.
    """

    def __init__(
        self, number: int, tell: Callable[[messages.FromWorker], None], among: dict[int, _Lent]
    ) -> None:
        self.debt = 0.0
        self.give_up: Callable[[], Awaitable[None]] | None = None
        self._number = number
        self._tell = tell
        self._among = among
        self._heard = self._told = 0.0

    @property
    def has_news(self) -> bool:
        """Whether more was heard than the front knows."""
        return self._heard > self._told

    def news(self) -> float:
        """What was heard, in seconds; the front knows it now."""
        self._told = self._heard
        return self._heard

    def heard(self, seconds: float, now: int) -> float:
        """See :class:`server.places.Place`."""
        self._heard = seconds
        return self.debt

    def offer(self, give_up: Callable[[], Awaitable[None]]) -> None:
        """See :class:`server.places.Place`."""
        self.give_up = give_up
        self._tell(Offer(self._number))

    def keep(self) -> None:
        """See :class:`server.places.Place`."""
        self.give_up = None
        self._tell(Keep(self._number))

    def end(self) -> None:
        """See :class:`server.places.Place`."""
        if self._among.pop(self._number, None) is not None:
            self._tell(End(self._number))
