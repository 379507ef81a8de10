"""How events come: in order, to one listener, by the event loop and from nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

import pytest

from engine.contract import (
    Applied,
    Close,
    Closed,
    Engine,
    EngineInfo,
    EngineSession,
    Event,
    Order,
    Played,
    ReplyAudio,
    Respond,
    SessionEnded,
    Settings,
    Sound,
)
from tests.contract.cases import CASES, Case, on, silence

pytestmark = [pytest.mark.asyncio(loop_scope="session")]
every = on(*CASES)

Result = TypeVar("Result")


class Listener:
    """Keeps what a session tells, and whether it was told while it asked for something.

    It asks from within what it is told, too: each piece of a reply is played as it comes.
    """

    def __init__(self, session: EngineSession) -> None:
        self.session = session
        self.events: list[Event] = []
        self.asking = 0
        self.within: list[Event] = []
        self.closed = asyncio.Event()

    def listen(self) -> None:
        self.ask(lambda: self.session.listen(self._told))

    def hear(self, pcm: Sound) -> None:
        self.ask(lambda: self.session.hear(pcm))

    def order(self, *orders: Order) -> None:
        for order in orders:
            self.ask(lambda order=order: self.session.order(order))  # type: ignore[misc]

    def ask(self, what: Callable[[], Result]) -> None:
        self.asking += 1
        with contextlib.suppress(SessionEnded):
            what()
        self.asking -= 1

    def _told(self, event: Event) -> None:
        if self.asking:
            self.within.append(event)
        self.events.append(event)
        if isinstance(event, ReplyAudio) and event.reply:
            played = sum(
                len(sound.pcm)
                for sound in self.events
                if isinstance(sound, ReplyAudio) and sound.reply == event.reply
            )
            self.order(Played(reply=event.reply, samples=played))
        if isinstance(event, Closed):
            self.closed.set()

    def kinds(self) -> list[str]:
        """The names of the events so far, sound left out."""
        return [type(event).__name__ for event in self.events if not isinstance(event, ReplyAudio)]


async def converse(listener: Listener, case: Case, info: EngineInfo) -> None:
    """Settings, something said, an answer to it, and the end."""
    listener.order(Settings(id="one"))
    sound = case.speech(0.4, info.input_rate)
    for pcm in (sound, silence(0.8, info.input_rate)):
        step = info.input_rate // 50
        for at in range(0, len(pcm), step):
            listener.hear(pcm[at : at + step])
            await asyncio.sleep(0.02 if info.tick else 0)
    if case.told:
        listener.order(Respond(reply="r", revision=0, verbatim="One two three."))
    async with asyncio.timeout(case.patience + 10):
        while not any(isinstance(event, ReplyAudio) for event in listener.events):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        listener.order(Close())
        await listener.closed.wait()


@every
async def test_nobody_is_told_anything_while_asking_and_closed_is_the_last(
    engine: Engine, case: Case
) -> None:
    listener = Listener(await engine.open())
    listener.listen()
    await converse(listener, case, engine.info)
    assert not listener.within
    assert {"Applied", "ReplyStarted"} <= set(listener.kinds())
    told = len(listener.events)
    await asyncio.sleep(0.1)
    assert len(listener.events) == told
    assert listener.kinds().count("Closed") == 1
    assert isinstance(listener.events[-1], Closed)


@every
async def test_what_came_before_anybody_listened_is_told_too_and_first(engine: Engine) -> None:
    listener = Listener(await engine.open())
    listener.order(Settings(id="one"), Settings(id="two"))
    await asyncio.sleep(0.3)
    listener.order(Close())
    await asyncio.sleep(0.1)
    listener.listen()
    async with asyncio.timeout(15):
        await listener.closed.wait()
    assert listener.kinds() == ["Applied", "Applied", "Closed"]
    assert [event.id for event in listener.events if isinstance(event, Applied)] == ["one", "two"]
    assert not listener.within
