"""One server's sessions with an engine of this process, over the link between them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

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
    SessionEnded,
    Sound,
    TranscriptDelta,
)
from engine.outbox import Outbox
from engine.remote import wire
from engine.remote.link import Link

_ALIVE = 0.1
"""Seconds between two signs of life."""
_SOUND = 0.002
"""Seconds that sound may wait for other callers', unless a clock makes it all at once."""
_FIGURES = 10
"""Signs of life between two sets of figures."""

_MANY = (Played, ReplyAudio, ReplyText, TranscriptDelta)
"""Too many to log each."""

log = structlog.get_logger("engine.remote.host")


@dataclass(slots=True, eq=False)
class _Stay:
    """A session and its accounts, in input samples: offered, and of these pushed out, and heard.

    ``room`` was left when it last heard some; there is more now, if anything. What it tells goes by
    ``outbox`` to ``told``, or waits there for the link.
    """

    session: EngineSession
    capacity: int
    log: Any
    told: Callable[[Event], None]
    outbox: Outbox = field(default_factory=Outbox)
    room: int = 0
    offered: int = 0
    dropped: int = 0
    heard: int = 0


class Served:
    """The sessions that one server has with ``engine``; they end with the link.

    Several times a second it says that this process's event loop runs and how much of each
    session's sound has been taken; a loop that is blocked says nothing, and is found out.
    """

    def __init__(self, engine: Engine, link: Link) -> None:
        self._engine = engine
        self._link = link
        self._stays: dict[int, _Stay] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._parted = asyncio.Event()
        """Whether a session has gone since that was last looked at."""
        self._link.turned = self._flow
        self._link.company = 0.0 if engine.info.tick else _SOUND
        self._link.send(wire.Ready(engine.info))
        self._spawn(self._live())

    def received(self, message: wire.Audio | wire.ToHost) -> None:
        """Takes what the server sends."""
        match message:
            case wire.Audio():
                self._hear(message.session, message.pcm)
            case wire.Give():
                self._give(message.session, message.order)
            case wire.Open():
                self._spawn(self._open(message.session, message.context))

    async def finish(self) -> None:
        """Passes the last events on, of an engine that has stopped."""
        while self._stays:
            self._parted.clear()
            await self._parted.wait()

    def lost(self) -> None:
        """The server is gone: its places are free for others."""
        for task in self._tasks:
            task.cancel()
        stays, self._stays = self._stays, {}
        self._parted.set()
        for stay in stays.values():
            self._close(stay)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self) -> None:
        """Gives the signs of life."""
        count = 0
        while True:
            self._link.send(wire.Alive(self._engine.state, self._taken()))
            if count % _FIGURES == 0:
                self._link.send(wire.Figures(dict(self._engine.figures())))
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
            told = partial(self._tell, number)
            stay = self._stays[number] = _Stay(session, session.room, own, told)
            self._link.send(wire.Opened(number, stay.capacity))
            stay.outbox.listen(told if self._link.writable else None)
            session.listen(partial(self._take, number))

    def _flow(self) -> None:
        """The link takes events again, or no more: they go, or wait."""
        for stay in self._stays.values():
            stay.outbox.listen(stay.told if self._link.writable else None)

    def _take(self, number: int, event: Event) -> None:
        """Takes what a session tells; one whose events nobody takes is ended."""
        stay = self._stays.get(number)
        if stay is None or stay.outbox.closed is not None:
            return
        if not isinstance(event, _MANY):
            stay.log.debug("engine event", kind=type(event).__name__)
        if isinstance(event, Closed):
            stay.outbox.end(event)
        elif not stay.outbox.tell(event):
            message = "nobody reads the session's events"
            closed = Closed("engine_failed", stay.offered, stay.dropped, message)
            stay.outbox.end(closed, Fault(code="events_unread", message=message))
            self._close(stay)

    def _tell(self, number: int, event: Event) -> None:
        """Passes an event on."""
        try:
            if isinstance(event, ReplyAudio):
                self._link.send(
                    wire.Audio(number, event.pcm, event.reply), within=self._link.company
                )
            else:
                self._link.send(wire.Told(number, event))
        except Exception as error:
            self._fail(number, error)
        if isinstance(event, Closed):
            self._stays.pop(number, None)
            self._parted.set()

    def _hear(self, number: int, pcm: Sound) -> None:
        stay = self._stays.get(number)
        if stay is None:
            return
        samples = len(pcm)
        stay.offered += samples
        if samples > stay.room:
            stay.dropped += max(0, samples - stay.session.room)
        try:
            stay.room = stay.session.hear(pcm)
        except SessionEnded:
            pass
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

    def _fail(self, number: int, error: Exception) -> None:
        """Ends a session whose engine has raised what no engine should."""
        stay = self._stays.pop(number, None)
        if stay is None:
            return
        stay.log.error("session failed", exc_info=error)
        message = f"the engine raised {type(error).__name__}"
        closed = Closed(reason="engine_failed", heard=stay.offered, dropped=0, message=message)
        self._link.send(wire.Told(number, Fault(code="engine_failed", message=message)))
        self._link.send(wire.Told(number, closed))
        self._parted.set()
        self._close(stay)

    def _close(self, stay: _Stay) -> None:
        with contextlib.suppress(Exception):
            stay.session.order(Close())
