"""An engine in a process of its own, as if it were here.

A model that computes beside the media loop moves packets by hundreds of milliseconds, and one that
crashes takes the calls along; so an engine gets its own process by default. A process that ends, or
says nothing for longer than the watchdog allows, or takes no sound from anybody for as long, is
lost: every session is told, and another one is started.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from engine.contract import (
    Close,
    EngineBusy,
    EngineError,
    EngineInfo,
    EngineUnavailable,
    Event,
    ReplyAudio,
    State,
)
from engine.process import Backoff
from engine.remote import logs, wire
from engine.remote.child import Child, Guest
from engine.remote.link import Link
from engine.remote.session import RemoteSession

_GRACE = 5.0
"""Seconds a process has to end when asked."""
_LOOKS = 10
"""Looks at a process within the watchdog's time."""
_COMPANY, _LONGEST = 40e-6, 0.01
"""Seconds that sound may wait for that of each other caller, and for that of all: the more there
are, the more it is writes, and the process that wakes at each, that cost."""

log = structlog.get_logger(__name__)


class RemoteEngine:
    """Engine ``name`` with ``options``, in a process of its own.

    Args:
        name: as :func:`engine.registry.create` knows it.
        options: its options.
        door: a Unix socket by which other servers may share it, if any.
        watchdog: seconds that its process may be silent, or take no sound, before it is lost.
        patience: seconds that it may take to start.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        door: str = "",
        watchdog: float = 2.0,
        patience: float = 300.0,
    ) -> None:
        self._name = name
        self._options = dict(options)
        self._door = door
        self._watchdog = watchdog
        self._patience = patience
        self._state: State = "starting"
        self._info: EngineInfo | None = None
        self._figures: dict[str, float] = {}
        self._child: Child | Guest | None = None
        self._ready: asyncio.Future[EngineInfo | None] | None = None
        self._numbers = itertools.count(1)
        self._opening: dict[int, asyncio.Future[RemoteSession]] = {}
        self._sessions: dict[int, RemoteSession] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._lost: asyncio.Future[str] | None = None
        self._losses = 0
        self._still = 0

    @property
    def info(self) -> EngineInfo:
        """See ``Engine``."""
        if self._info is None:
            raise EngineUnavailable(f"{self._name}: the engine has not started")
        return self._info

    @property
    def state(self) -> State:
        """See ``Engine``."""
        return self._state

    @property
    def pid(self) -> int | None:
        """The id of its process, while there is one."""
        return self._child.pid if self._child is not None else None

    def figures(self) -> Mapping[str, float]:
        """See ``Engine``; ``losses`` counts the processes that were lost."""
        return {**self._figures, "losses": float(self._losses)}

    async def start(self) -> None:
        """See ``Engine``."""
        await self._launch()
        self._keeper = asyncio.create_task(self._keep())

    async def open(self) -> RemoteSession:
        """See ``Engine``."""
        if self._child is None or self._state not in ("ready", "degraded"):
            raise EngineUnavailable(f"{self._name}: the engine is {self._state}")
        number = next(self._numbers)
        opened: asyncio.Future[RemoteSession] = asyncio.get_running_loop().create_future()
        self._opening[number] = opened
        self._child.link.send(wire.Open(number, structlog.contextvars.get_contextvars()))
        return await opened

    async def stop(self) -> None:
        """See ``Engine``."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])
        if self._child is not None:
            await self._child.terminate(_GRACE)
        self._child, self._state = None, "starting"

    async def _launch(self) -> None:
        """Starts a process, and returns when its engine is ready."""
        self._state = "starting"
        loop = asyncio.get_running_loop()
        self._ready, self._lost = loop.create_future(), loop.create_future()
        try:
            child = self._child = await self._reach()
        except OSError as error:
            self._state = "failed"
            message = f"{self._name}: its process cannot be had: {error.strerror}"
            raise EngineError(message) from error
        try:
            async with asyncio.timeout(self._patience):
                info = await self._ready
            if info is None:
                code = await child.kill()
                raise EngineError(f"{self._name}: its process ended with exit code {code}")
            self._info, self._state = info, "ready"
        except TimeoutError:
            expected = f"expected to start within {self._patience:g} s"
            raise EngineError(f"{self._name}: {expected}") from None
        finally:
            if self._state != "ready":
                self._child, self._state = None, "failed"
                await child.kill()

    async def _reach(self) -> Child | Guest:
        """A process that makes the engine ready, and says so."""
        child = await Child.spawn(self._received, self._went)
        child.link.send(wire.Begin(self._name, self._options, logs.wants_debug(), self._door))
        return child

    async def _keep(self) -> None:
        """Watches the process; starts another when it is lost."""
        backoff = Backoff()
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self._watch()
            self._losses += 1
            backoff.ran(loop.time() - began)
            while self._child is None:
                await asyncio.sleep(backoff.wait())
                try:
                    await self._launch()
                except EngineError as error:
                    log.error("engine cannot be started again", reason=str(error))

    async def _watch(self) -> None:
        """Returns when the process is lost, and gone."""
        child, lost = self._child, self._lost
        assert child is not None
        assert lost is not None
        while not lost.done():
            await asyncio.wait([lost], timeout=self._watchdog / _LOOKS)
            overdue = self._overdue(child.link)
            if overdue is not None:
                child.link.abort(overdue)
        exit_code = await child.kill()
        self._child = None  # Not before: whoever stops the engine meanwhile sees to its end.
        log.error("engine lost", reason=lost.result(), exit_code=exit_code)

    def _overdue(self, link: Link) -> str | None:
        """What the process has failed to do for as long as the watchdog allows, if anything.

        A session that stands still while sound is taken from others is ended, and no more.

        Looks are counted, not seconds: a machine that stood still as a whole has lost no engine.
        """
        link.quiet += 1
        if link.quiet > _LOOKS:
            return f"it was silent for {self._watchdog:g} s"
        self._still += 1
        stuck = [n for n, session in self._sessions.items() if session.look() > _LOOKS]
        message = f"it took no sound for {self._watchdog:g} s"
        if stuck and self._still > _LOOKS:
            return message
        for number in stuck:
            log.error("session took no sound, and is ended")
            self._sessions.pop(number).fail("engine_failed", f"{self._name}: {message}")
        return None

    def _went(self, reason: str) -> None:
        """Tells everybody that the process is lost."""
        message = f"{self._name}: {reason}"
        self._state = "failed"
        assert self._lost is not None
        assert self._ready is not None
        self._lost.set_result(f"{reason}; sessions told: {len(self._sessions)}")
        if not self._ready.done():
            self._ready.set_result(None)
        opening, self._opening = self._opening, {}
        for opened in opening.values():
            if not opened.done():
                opened.set_exception(EngineUnavailable(message))
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.lost(message)

    def _received(self, message: wire.Audio | wire.FromHost) -> None:
        if isinstance(message, wire.Audio):  # Nearly all are.
            self._told(message.session, ReplyAudio(message.reply, message.pcm))
            return
        match message:
            case wire.Told():
                self._told(message.session, message.event)
            case wire.Alive():
                self._alive(message)
            case wire.Figures():
                self._figures = message.figures
            case wire.Logged():
                logs.write(message)
            case wire.Opened():
                self._opened(message)
            case wire.Busy():
                self._refused(message.session, EngineBusy(message.retry_after))
            case wire.Unavailable():
                self._refused(message.session, EngineUnavailable(message.message))
            case wire.Ready():
                self._answer(message.info)
            case wire.Failed():
                self._answer(EngineError(message.message))

    def _told(self, number: int, event: Event) -> None:
        session = self._sessions.get(number)
        if session is not None and not session.told(event):
            del self._sessions[number]

    def _alive(self, message: wire.Alive) -> None:
        assert self._child is not None
        self._state = message.state
        self._child.link.company = min(_COMPANY * len(self._sessions), _LONGEST)
        if message.taken:
            self._still = 0
        for number, taken in message.taken.items():
            if number in self._sessions:
                self._sessions[number].moved(taken)
        if message.state == "failed":
            self._child.link.abort("it says that it has failed")

    def _opened(self, message: wire.Opened) -> None:
        assert self._child is not None
        opened = self._opening.pop(message.session)
        if opened.cancelled():
            self._child.link.send(wire.Give(message.session, Close()))
            return
        session = RemoteSession(message.session, self._child.link, message.room, self.info)
        self._sessions[message.session] = session
        opened.set_result(session)

    def _refused(self, number: int, error: EngineError) -> None:
        opened = self._opening.pop(number)
        if not opened.cancelled():
            opened.set_exception(error)

    def _answer(self, answer: EngineInfo | EngineError) -> None:
        """The process says how its engine started."""
        if self._ready is None or self._ready.done():
            return
        if isinstance(answer, EngineError):
            self._ready.set_exception(answer)
        else:
            self._ready.set_result(answer)


class SharedEngine(RemoteEngine):
    """An engine in the process of another server's; ``door`` is where that lets others in.

    It is found again where it was lost, once its owner has started another process.
    """

    def __init__(self, name: str, door: str) -> None:
        super().__init__(name, {}, door=door)

    async def _reach(self) -> Child | Guest:
        guest = await Guest.join(Path(self._door), self._received, self._went)
        guest.link.send(wire.Join())
        return guest
