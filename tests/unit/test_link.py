"""One end of the border: what is sent leaves in time, in order, and in few writes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from engine.contract import Played
from engine.remote import link as module
from engine.remote import wire
from engine.remote.link import Link, LinkFull


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[Link, socket.socket]]:
    """A link, and the other end's socket."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    link = Link(wire.FromHost, lambda message: None, lambda reason: None)
    await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
    yield link, theirs
    link.abort("over")
    theirs.close()
    await link.ended.wait()


def sound(session: int) -> wire.Audio:
    return wire.Audio(session, np.full(4, session, np.int16))


async def came(theirs: socket.socket) -> list[int]:
    """The sessions whose sound comes next, in one write."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(15):
        data = await loop.sock_recv(theirs, 1 << 20)
    return [message.session for message in wire.Unpacker(wire.ToHost).push(data)]


async def test_what_may_wait_leaves_with_what_may_not_and_in_order() -> None:
    async with linked() as (link, theirs):
        link.send(sound(1), within=60.0)
        link.offer(wire.pack(sound(2)), within=30.0)
        link.send(sound(3))
        link.offer(wire.pack(sound(4)), within=60.0)
        assert await came(theirs) == [1, 2, 3, 4]


async def test_nothing_waits_longer_than_it_may() -> None:
    async with linked() as (link, theirs):
        link.send(sound(1), within=60.0)
        link.send(sound(2), within=0.01)
        link.send(sound(3), within=0.02)
        assert await came(theirs) == [1, 2, 3]
        link.send(sound(4), within=0.01)
        assert await came(theirs) == [4]


async def test_a_writes_worth_leaves_before_the_turn_is_over() -> None:
    async with linked() as (link, theirs):
        piece = wire.Audio(1, np.zeros(20_000, np.int16))
        link.send(piece)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        link.send(piece)
        assert len(theirs.recv(1 << 20)) > 80_000


async def test_what_is_sent_next_is_not_hurried_by_what_had_to_leave_before() -> None:
    async with linked() as (link, theirs):
        link.send(sound(1), within=0.05)
        link.send(wire.Audio(2, np.zeros(40_000, np.int16)), within=0.05)
        assert await came(theirs) == [1, 2]
        link.send(sound(3), within=60.0)
        await asyncio.sleep(0.15)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


async def test_more_than_half_of_the_room_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BACKLOG", 1000)
    async with linked() as (link, _):
        link.pause_writing()
        link.offer(wire.pack(wire.Audio(1, np.zeros(200, np.int16))))
        with pytest.raises(LinkFull, match="expected at most 295 bytes now"):
            link.offer(wire.pack(wire.Audio(1, np.zeros(200, np.int16))))
        link.offer(wire.pack(wire.Give(1, Played(reply="r", samples=1))))
