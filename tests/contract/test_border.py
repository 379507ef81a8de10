"""The process border: what breaks in one session, or at a bad moment, breaks nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.contract import (
    Closed,
    Context,
    EngineError,
    EngineInfo,
    Event,
    Fault,
    Message,
    Order,
    Played,
    Respond,
    SessionEnded,
    Text,
    Tool,
)
from engine.process import Process
from engine.reading import read
from engine.remote import wire
from engine.remote.link import Link
from engine.remote.proxy import RemoteEngine
from engine.remote.session import RemoteSession
from tests.contract.caller import Caller
from tests.contract.cases import tone

pytestmark = [pytest.mark.asyncio(loop_scope="session")]

WEDGED = """
from engine.simulated import Simulated

class Session:
    def __init__(self, session):
        self.order, self.listen = session.order, session.listen
        self.room = 32000

    def hear(self, pcm):
        self.room = max(0, self.room - len(pcm))
        return self.room

class Wedged(Simulated):
    first = True

    async def open(self):
        session = await super().open()
        wedged, self.first = self.first, False
        return Session(session) if wedged else session
"""


def saying(text: str) -> Context:
    return Context(revision=1, messages=(Message(role="user", parts=(Text(text=text),)),))


def nested(value: Any) -> Context:
    return Context(revision=1, tools=(Tool(name="f", parameters={"of": value}),))


@contextlib.asynccontextmanager
async def started(name: str = "simulated", **options: Any) -> AsyncIterator[RemoteEngine]:
    engine = RemoteEngine(name, options, watchdog=0.8)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


async def events_of(session: RemoteSession) -> list[Event]:
    async with asyncio.timeout(2.0):
        return [event async for event in read(session)]


@pytest.mark.parametrize(
    "order",
    [saying("x" * 2**20), saying("\ud800"), nested(2**70)],
    ids=["too large", "half a surrogate pair", "too large a number"],
)
async def test_an_order_that_cannot_pass_ends_its_session_alone(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME", 2**20)
    async with started(capacity=2) as engine:
        other = Caller(await engine.open(), engine.info)
        await other.settle()
        session = await engine.open()
        session.order(order)
        *_, fault, closed = await events_of(session)
        assert isinstance(fault, Fault)
        assert isinstance(closed, Closed)
        assert (fault.code, closed.reason) == ("engine_failed", "engine_failed")
        with pytest.raises(SessionEnded):
            session.order(order)
        other.order(Respond(reply="r", revision=0, verbatim="It goes on."))
        await other.speak()
        await other.close()
        other.check_replies()
        await Caller(await engine.open(), engine.info).close()
        assert engine.figures()["losses"] == 0


async def test_who_fills_the_link_is_ended_and_who_sends_little_is_not() -> None:
    ours, theirs = socket.socketpair()
    lost: list[str] = []
    link = Link(wire.FromHost, lambda message: None, lost.append)
    await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
    info = EngineInfo(name="any", input_rate=16000, output_rate=16000)
    greedy, modest = (RemoteSession(number, link, 32000, info) for number in (1, 2))
    order = saying("x" * (24 << 20))
    with contextlib.suppress(SessionEnded):
        for _ in range(8):
            greedy.order(order)
            modest.hear(tone(0.02, 16000))
            modest.order(Played(reply="r", samples=1))
            await asyncio.sleep(0)
    assert isinstance((await events_of(greedy))[-1], Closed)
    modest.hear(tone(0.02, 16000))
    assert not lost
    link.abort("over")
    theirs.close()
    await link.ended.wait()


async def test_a_process_that_cannot_be_started_again_yet_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, refusals = Process.start, [errno.EAGAIN, errno.ENOMEM]

    def refuse(*arguments: Any, **more: Any) -> Process:
        if refusals:
            code = refusals.pop()
            raise OSError(code, os.strerror(code))
        return start(*arguments, **more)

    async with started() as engine:
        assert engine.pid is not None
        monkeypatch.setattr(Process, "start", refuse)
        os.kill(engine.pid, signal.SIGKILL)
        async with asyncio.timeout(10.0):
            while refusals or engine.state != "ready":  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.02)
        await Caller(await engine.open(), engine.info).close()


async def test_a_process_that_cannot_be_started_at_all_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*arguments: Any, **more: Any) -> Process:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Process, "start", refuse)
    engine = RemoteEngine("simulated", {})
    with pytest.raises(EngineError, match="Too many open files"):
        await engine.start()
    assert engine.state == "failed"


async def test_a_session_that_is_stuck_is_ended_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wedged-1.dist-info").mkdir()
    (tmp_path / "wedged.py").write_text(WEDGED)
    (tmp_path / "wedged-1.dist-info/METADATA").write_text("Name: wedged\nVersion: 1\n")
    entry = "[parley.engines]\nwedged = wedged:Wedged\n"
    (tmp_path / "wedged-1.dist-info/entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(tmp_path)
    async with started("wedged", capacity=2) as engine:
        stuck, other = await engine.open(), Caller(await engine.open(), engine.info)
        await other.settle()
        sound = tone(0.02, engine.info.input_rate)
        with contextlib.suppress(SessionEnded):
            for _ in range(200):
                stuck.hear(sound)
                other.session.hear(sound)
                await asyncio.sleep(0.02)
        *_, fault, closed = await events_of(stuck)
        assert isinstance(fault, Fault)
        assert isinstance(closed, Closed)
        assert (fault.code, closed.reason) == ("engine_failed", "engine_failed")
        await asyncio.sleep(1.0)
        other.session.hear(sound)
        assert not other.of(Closed)
        assert engine.figures()["losses"] == 0
        await Caller(await engine.open(), engine.info).close()
