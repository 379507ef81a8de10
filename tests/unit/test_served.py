"""The engine's side of the border: events go as the link takes them, and wait only so far."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.contract import (
    Close,
    Closed,
    EngineInfo,
    Event,
    Fault,
    Order,
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    SessionEnded,
    Sound,
    State,
    TurnDropped,
)
from engine.outbox import Outbox
from engine.remote import wire
from engine.remote.link import Link
from engine.remote.served import Served

SOUND = ReplyAudio(reply="r", pcm=np.zeros(1 << 19, np.int16))
"""1 MB."""
HALF_A_PAIR = TurnDropped(turn="\ud800")


class Session:
    """One whose events are the test's."""

    room = 1000

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.orders: list[Order] = []
        self.listen = self.outbox.listen

    def hear(self, pcm: Sound) -> int:
        return self.room

    def order(self, order: Order) -> None:
        if self.outbox.closed is not None:
            raise SessionEnded(self.outbox.closed)
        self.orders.append(order)
        if isinstance(order, Close):
            self.outbox.end(Closed(reason="closed", heard=0, dropped=0))


class Engine:
    """Its sessions, in order."""

    info = EngineInfo(name="any", input_rate=16000, output_rate=16000)
    state: State = "ready"

    def __init__(self) -> None:
        self.sessions: list[Session] = []

    async def start(self) -> None:
        """Starts."""

    async def open(self) -> Session:
        self.sessions.append(Session())
        return self.sessions[-1]

    def figures(self) -> Mapping[str, float]:
        return {}

    async def stop(self) -> None:
        """Stops."""


@dataclass
class Border:
    """Both ends of a link: who serves, and a socket that is read when the test says so."""

    link: Link
    served: Served
    engine: Engine
    theirs: socket.socket
    unpacker: wire.Unpacker

    async def opened(self, count: int) -> list[Session]:
        for number in range(1, count + 1):
            self.served.received(wire.Open(number))
        await until(lambda: len(self.engine.sessions) == count)
        return self.engine.sessions

    async def read(self, last: Callable[[Event], bool]) -> dict[int, list[Event]]:
        """The events of each session, up to that one."""
        loop, events = asyncio.get_running_loop(), dict[int, list[Event]]()
        async with asyncio.timeout(15):
            while True:
                data = await loop.sock_recv(self.theirs, 1 << 20)
                for message in self.unpacker.push(data):
                    event: Event | None = getattr(message, "event", None)
                    if isinstance(message, wire.Audio):
                        event = ReplyAudio(message.reply, message.pcm)
                    if event is not None:
                        events.setdefault(message.session, []).append(event)
                        if last(event):
                            return events


async def until(what: Callable[[], Any]) -> None:
    async with asyncio.timeout(15):
        while not what():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


@asynccontextmanager
async def border() -> AsyncIterator[Border]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    engine = Engine()
    link = Link(wire.ToHost, lambda message: None, lambda reason: None)
    await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
    served = Served(engine, link)
    yield Border(link, served, engine, theirs, wire.Unpacker(wire.FromHost))
    served.lost()
    link.abort("over")
    theirs.close()
    await link.ended.wait()


async def stop_reading(session: Session, link: Link) -> None:
    """Has the session talk until the link takes no more."""
    async with asyncio.timeout(15):
        while link.writable:
            session.outbox.put(SOUND)
            await asyncio.sleep(0)


async def test_events_wait_for_the_link_and_come_in_order() -> None:
    async with border() as here:
        first, second = await here.opened(2)
        first.outbox.put(ReplyStarted(reply="r"))
        await stop_reading(first, here.link)
        for turn in range(3):
            second.outbox.put(TurnDropped(turn=str(turn)))
        first.outbox.put(ReplyEnded(reply="r", reason="completed"))
        second.outbox.put(TurnDropped(turn="last"))
        await asyncio.sleep(0.05)
        events = await here.read(lambda event: event == TurnDropped(turn="last"))
        assert events[2] == [TurnDropped(turn=turn) for turn in ("0", "1", "2", "last")]
        kinds = [type(event) for event in events[1]]
        assert kinds == [ReplyStarted, *[ReplyAudio] * (len(kinds) - 2), ReplyEnded]


async def test_a_session_whose_events_nobody_takes_is_ended_and_no_other() -> None:
    async with border() as here:
        first, second = await here.opened(2)
        first.outbox.put(ReplyStarted(reply="r"))
        await stop_reading(first, here.link)
        second.outbox.put(TurnDropped(turn="t"))
        async with asyncio.timeout(15):
            while not first.orders:
                first.outbox.put(SOUND)
                await asyncio.sleep(0)
        assert first.orders == [Close()]
        events = await here.read(lambda event: isinstance(event, Closed))
        ended, fault, closed = events[1][-3:]
        assert ended == ReplyEnded(reply="r", reason="failed")
        assert isinstance(fault, Fault) and fault.code == "events_unread"
        assert isinstance(closed, Closed) and closed.reason == "engine_failed"
        assert not second.orders


async def test_an_event_that_cannot_pass_ends_its_session_and_no_other() -> None:
    async with border() as here:
        first, second = await here.opened(2)
        first.outbox.put(HALF_A_PAIR)
        first.outbox.put(TurnDropped(turn="after"))
        await until(lambda: first.orders)
        second.outbox.put(TurnDropped(turn="t"))
        events = await here.read(lambda event: event == TurnDropped(turn="t"))
        fault, closed = events[1]
        assert isinstance(fault, Fault) and isinstance(closed, Closed)
        assert (fault.code, closed.reason) == ("engine_failed", "engine_failed")
        assert not second.orders


async def test_the_last_events_of_an_engine_that_has_stopped_are_passed_on() -> None:
    async with border() as here:
        sessions = await here.opened(2)
        await stop_reading(sessions[0], here.link)
        for session in sessions:
            session.order(Close())
        finishing = asyncio.create_task(here.served.finish())
        await asyncio.sleep(0.05)
        assert not finishing.done()
        ended: list[Event] = []

        def all_closed(event: Event) -> bool:
            ended.extend([event] if isinstance(event, Closed) else [])
            return len(ended) == 2

        await here.read(all_closed)
        async with asyncio.timeout(15):
            await finishing
