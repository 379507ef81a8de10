"""A caller: offers sound and orders to a session and keeps what it tells."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypeVar

import numpy as np

from engine.contract import (
    Close,
    Closed,
    EngineInfo,
    EngineSession,
    Event,
    Order,
    Played,
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    Samples,
    SessionEnded,
    Settings,
    TurnDetection,
)
from engine.reading import read
from tests.contract.cases import ECHO, Case, silence

AnEvent = TypeVar("AnEvent")

MANUAL = TurnDetection(kind="none")


class Caller:
    """One session and everything it has told; ``plays``: sound is played as soon as it comes."""

    def __init__(
        self, session: EngineSession, info: EngineInfo, case: Case = ECHO, *, plays: bool = True
    ) -> None:
        self.session = session
        self.info = info
        self.case = case
        self.plays = plays
        self.events: list[Event] = []
        self.offered = 0
        self._sounded: dict[str, int] = {}
        self._news = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in read(self.session):
            async with self._news:
                self.events.append(event)
                self._news.notify_all()
            if isinstance(event, ReplyAudio) and event.reply and self.plays:
                self.played(event.reply, len(event.pcm))

    def played(self, reply: str, samples: int) -> None:
        """Plays ``samples`` more of a reply."""
        self._sounded[reply] = self._sounded.get(reply, 0) + samples
        with contextlib.suppress(SessionEnded):
            self.session.order(Played(reply=reply, samples=self._sounded[reply]))

    def order(self, *orders: Order) -> None:
        """Gives orders."""
        for order in orders:
            self.session.order(order)

    async def offer(self, pcm: Samples) -> None:
        """Offers sound in pieces of 20 ms, in real time to a clocked engine, losing nothing."""
        step = self.info.input_rate // 50
        for at in range(0, len(pcm), step):
            piece = pcm[at : at + step]
            await self.room(len(piece))
            self.session.hear(piece)
            self.offered += len(piece)
            await asyncio.sleep(0.02 if self.info.tick else 0)

    async def room(self, samples: int) -> None:
        """Waits until the session has room."""
        async with asyncio.timeout(5.0):
            while self.session.room < samples:  # noqa: ASYNC110 - the contract has no event for it
                await asyncio.sleep(0.01)

    async def say(self, seconds: float) -> None:
        """Says something for ``seconds`` or as long as the engine needs."""
        await self.offer(self.case.speech(seconds, self.info.input_rate))

    async def click(self) -> None:
        """Makes a sound too short for speech."""
        rate, seconds = self.info.input_rate, self.case.click
        await self.offer(self.case.speech(seconds, rate)[: int(seconds * rate)])

    async def pause(self, seconds: float) -> None:
        """Is silent."""
        await self.offer(silence(seconds, self.info.input_rate))

    async def speak(self) -> None:
        """Says something and is silent after it."""
        await self.say(0.4)
        await self.pause(0.8)

    def of(self, kind: type[AnEvent]) -> list[AnEvent]:
        """The events of a kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, kind: type[AnEvent], count: int = 1) -> AnEvent:
        """The ``count``-th event of a kind; fails if it does not come in time."""
        async with asyncio.timeout(self.case.patience), self._news:
            await self._news.wait_for(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]

    async def settle(self, settings: Settings | None = None) -> None:
        """Gives settings, and waits until they are answered."""
        given = settings or Settings(id="first")
        self.order(given)
        async with asyncio.timeout(5.0), self._news:
            await self._news.wait_for(
                lambda: any(getattr(event, "id", None) == given.id for event in self.events)
            )

    async def close(self) -> Closed:
        """Closes the session and reads to its end."""
        self.order(Close())
        await asyncio.wait_for(self._reader, 5.0)
        closed = self.events[-1]
        assert isinstance(closed, Closed)
        return closed

    async def ended(self, within: float = 5.0) -> Closed:
        """Reads until the engine ends the session."""
        await asyncio.wait_for(self._reader, within)
        closed = self.events[-1]
        assert isinstance(closed, Closed)
        return closed

    def kinds(self, *without: type[Event]) -> list[str]:
        """The names of the events so far, in order."""
        return [type(event).__name__ for event in self.events if not isinstance(event, without)]

    def text(self, reply: str) -> str:
        """What a reply says."""
        return "".join(event.text for event in self.of(ReplyText) if event.reply == reply)

    def sound(self, reply: str) -> Samples:
        """How a reply sounds."""
        pieces = [event.pcm for event in self.of(ReplyAudio) if event.reply == reply]
        return np.concatenate([np.zeros(0, np.float32), *pieces])

    def check_replies(self) -> None:
        """Fails unless every reply starts and ends exactly once and is not named outside that."""
        named: dict[str, list[str]] = {}
        for event in self.events:
            reply = getattr(event, "reply", "")
            if reply:
                named.setdefault(reply, []).append(type(event).__name__)
        for kinds in named.values():
            assert kinds[0] == ReplyStarted.__name__
            assert kinds[-1] == ReplyEnded.__name__
            assert kinds.count(ReplyStarted.__name__) == kinds.count(ReplyEnded.__name__) == 1
