"""The engine's own process: ``python -m engine.remote.host FD``.

It serves one engine over the inherited socket FD and lives no longer than its parent, which holds
the other end of its standard input. Several times a second it says that its event loop runs and how
much of each session's sound has been taken; a loop that is blocked says nothing, and is found out.

What it logs is written by the server; see :mod:`engine.remote.logs`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from engine import registry
from engine.contract import (
    Close,
    Closed,
    Engine,
    EngineBusy,
    EngineError,
    EngineSession,
    Event,
    Fault,
    Order,
    Played,
    ReplyAudio,
    ReplyText,
    Samples,
    SessionEnded,
    TranscriptDelta,
)
from engine.remote import logs, wire
from engine.remote.link import Link

_ALIVE = 0.1
"""Seconds between two signs of life."""
_NICENESS = 3
"""Added to this process's: a model that waits a little delays one answer; a frame that waits is a
gap, or has the browser buffer more. The media loop goes first, by half: on a machine that is busy
with something else a far nicer process gets no turn at all, and is taken for stalled."""
_SOUND = 0.002
"""Seconds that sound may wait for other callers' (:mod:`engine.remote.session`)."""
_FIGURES = 10
"""Signs of life between two sets of figures."""

_MANY = (Played, ReplyAudio, ReplyText, TranscriptDelta)
"""Too many to log each."""

log = structlog.get_logger("engine.remote.host")


@dataclass(slots=True, eq=False)
class _Stay:
    """A session and its accounts, in input samples: offered, and of these pushed out, and heard."""

    session: EngineSession
    capacity: int
    log: Any
    offered: int = 0
    dropped: int = 0
    heard: int = 0
    pump: asyncio.Task[None] | None = None


class Host:
    """Serves one engine to one link."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._stays: dict[int, _Stay] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._link = Link(wire.ToHost, self._received, lambda reason: self._over.set())

    async def run(self, sock: socket.socket) -> None:
        """Serves until the link ends or the process is told to."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._over.set)
        transport, _ = await loop.create_connection(lambda: self._link, sock=sock)
        await self._over.wait()
        if self._engine is not None:
            await self._stop(self._engine)
        await asyncio.gather(*(stay.pump for stay in self._stays.values() if stay.pump))
        self._link.flush()
        transport.close()

    async def _stop(self, engine: Engine) -> None:
        try:
            await engine.stop()
        except Exception as error:
            log.error("engine did not stop", exc_info=error)

    def _received(self, message: wire.ToHost) -> None:
        match message:
            case wire.Hear():
                self._hear(message.session, message.pcm)
            case wire.Give():
                self._give(message.session, message.order)
            case wire.Open():
                self._spawn(self._open(message.session, message.context))
            case wire.Begin():
                self._spawn(self._begin(message))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _begin(self, begin: wire.Begin) -> None:
        logs.forward(self._link.send, debug=begin.debug)
        try:
            engine = registry.create(begin.name, begin.options, own_process=False)
            await engine.start()
        except EngineError as error:
            self._link.send(wire.Failed(str(error)))
        except Exception as error:
            self._link.send(wire.Failed(f"{type(error).__name__}: {error}"))
        else:
            self._engine = engine
            self._link.send(wire.Ready(engine.info))
            self._spawn(self._live(engine))

    async def _live(self, engine: Engine) -> None:
        """Gives the signs of life."""
        count = 0
        while True:
            self._link.send(wire.Alive(engine.state, self._taken()))
            if count % _FIGURES == 0:
                self._link.send(wire.Figures(dict(engine.figures())))
            count += 1
            await asyncio.sleep(_ALIVE)

    def _taken(self) -> dict[int, int]:
        """All but what still lies before sessions, of those that have heard more of it.

        A real-time caller's sound moves on before an engine that stands still, too: it is dropped.
        """
        changed = {}
        for number, stay in self._stays.items():
            taken = stay.offered - (stay.capacity - stay.session.room)
            if taken - stay.dropped != stay.heard:
                stay.heard = taken - stay.dropped
                changed[number] = taken
        return changed

    async def _open(self, number: int, context: dict[str, Any]) -> None:
        assert self._engine is not None
        structlog.contextvars.bind_contextvars(**context)
        try:
            session = await self._engine.open()
        except EngineBusy as busy:
            self._link.send(wire.Busy(number, busy.retry_after))
        except EngineError as error:
            self._link.send(wire.Unavailable(number, str(error)))
        except Exception as error:
            log.error("session could not be opened", exc_info=error)
            message = f"the engine raised {type(error).__name__}"
            self._link.send(wire.Unavailable(number, message))
        else:
            own = log.bind(**context)
            own.debug("session opened", room=session.room)
            stay = self._stays[number] = _Stay(session, session.room, own)
            self._link.send(wire.Opened(number, stay.capacity))
            stay.pump = asyncio.create_task(self._pump(number, stay))

    async def _pump(self, number: int, stay: _Stay) -> None:
        """Passes a session's events on, as fast as the link takes them."""
        try:
            async for event in stay.session.events():
                if not isinstance(event, _MANY):
                    stay.log.debug("engine event", kind=type(event).__name__)
                self._tell(number, event)
                if not self._link.writable.is_set():
                    await self._link.writable.wait()
        except Exception as error:
            self._fail(number, error)
        self._stays.pop(number, None)

    def _hear(self, number: int, pcm: Samples) -> None:
        stay = self._stays.get(number)
        if stay is None:
            return
        stay.offered += len(pcm)
        stay.dropped += max(0, len(pcm) - stay.session.room)
        try:
            with contextlib.suppress(SessionEnded):
                stay.session.hear(pcm)
        except Exception as error:
            self._fail(number, error)

    def _give(self, number: int, order: Order) -> None:
        stay = self._stays.get(number)
        if stay is None:
            return
        if not isinstance(order, _MANY):
            stay.log.debug("engine order", kind=type(order).__name__)
        try:
            with contextlib.suppress(SessionEnded):
                stay.session.order(order)
        except Exception as error:
            self._fail(number, error)

    def _tell(self, number: int, event: Event) -> None:
        within = _SOUND if isinstance(event, ReplyAudio) else 0.0
        self._link.send(wire.Told(number, event), within=within)

    def _fail(self, number: int, error: Exception) -> None:
        """Ends a session whose engine has raised what no engine should."""
        stay = self._stays.pop(number, None)
        if stay is None:
            return
        stay.log.error("session failed", exc_info=error)
        message = f"the engine raised {type(error).__name__}"
        closed = Closed(reason="engine_failed", heard=stay.offered, dropped=0, message=message)
        self._tell(number, Fault(code="engine_failed", message=message))
        self._tell(number, closed)
        if stay.pump is not None and stay.pump is not asyncio.current_task():
            stay.pump.cancel()
        with contextlib.suppress(Exception):
            stay.session.order(Close())


def _end_with_parent() -> None:
    """Ends the process, even one that is blocked, when the parent's end of stdin is gone."""
    os.read(0, 1)
    os._exit(0)


def main() -> None:
    """Runs the process."""
    os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    asyncio.run(_main(socket.socket(fileno=int(sys.argv[1]))))


async def _main(sock: socket.socket) -> None:
    await Host().run(sock)


if __name__ == "__main__":
    main()
