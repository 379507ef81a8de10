"""The front's half of lending places to one worker, whose half is :mod:`server.workers.desk`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from server.errors import ServiceError
from server.workers.messages import (
    End,
    FromFront,
    FromWorker,
    GiveUp,
    Keep,
    Offer,
    Owing,
    Refused,
    Report,
    Take,
    Taken,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from server.places import OwnPlaces, Place

_FREED = 5.0
"""Seconds that a session may take to end for a newcomer."""


class Lending:
    """The places that a worker has, waits for, or is asked to give back, by its numbers for them.

    Args:
        places: of this front.
        tell: sends the worker a message.
    """

    def __init__(self, places: OwnPlaces, tell: Callable[[FromFront], Awaitable[None]]) -> None:
        self._places = places
        self._tell = tell
        self._lent: dict[int, Place] = {}
        self._debts: dict[int, float] = {}
        self._asked_back: dict[int, asyncio.Event] = {}
        self._waiting: dict[int, asyncio.Task[None]] = {}

    @property
    def lent(self) -> int:
        """Places that the worker has."""
        return len(self._lent)

    async def received(self, message: FromWorker) -> None:
        """Takes what the worker says."""
        match message:
            case Take(number=number, names=names):
                # It may wait for another session to end, which is told here too.
                self._waiting[number] = asyncio.create_task(self._lend(number, names))
            case End(number=number):
                self._end(number)
            case Offer(number=number):
                if place := self._lent.get(number):
                    place.offer(lambda: self._give_up(number))
            case Keep(number=number):
                if place := self._lent.get(number):
                    place.keep()
                self._decided(number)
            case Report(heard=heard):
                await self._collect(heard)

    def end(self) -> None:
        """The worker is gone: nobody there needs a place any more."""
        for number in (*self._waiting, *self._lent):
            self._end(number)

    async def _lend(self, number: int, names: tuple[str, ...]) -> None:
        answer: FromFront
        try:
            self._lent[number] = await self._places.take(names)
            answer = Taken(number)
        except ServiceError as error:
            answer = Refused.of(number, error)
        finally:
            self._waiting.pop(number, None)
        await self._tell(answer)

    async def _give_up(self, number: int) -> None:
        """Has a session ended whose place is needed; returns when it is free, or its caller came
        back just before.
        """
        decided = self._asked_back[number] = asyncio.Event()
        await self._tell(GiveUp(number))
        try:
            async with asyncio.timeout(_FREED):
                await decided.wait()
        except TimeoutError:
            self._end(number)

    def _decided(self, number: int) -> None:
        """The place that was asked back is free, or kept."""
        if decided := self._asked_back.pop(number, None):
            decided.set()

    def _end(self, number: int) -> None:
        """Nobody needs that place any more, had or still waited for."""
        if waiting := self._waiting.pop(number, None):
            waiting.cancel()
        self._debts.pop(number, None)
        if place := self._lent.pop(number, None):
            place.end()
        self._decided(number)

    async def _collect(self, heard: dict[int, float]) -> None:
        """Counts the sound that was heard; tells who owes what, where that is not as before."""
        now, before = time.monotonic_ns(), dict(self._debts)
        for number, seconds in heard.items():
            if place := self._lent.get(number):
                self._debts[number] = place.heard(seconds, now)
        self._debts = {number: debt for number, debt in self._debts.items() if debt}
        if self._debts or before:
            await self._tell(Owing(self._debts))
