"""A media worker as the front sees it: its process, its connection, and the places it has."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import time
from typing import TYPE_CHECKING

from aiohttp import (
    ClientError,
    ClientSession,
    ClientTimeout,
    ClientWSTimeout,
    UnixConnector,
    WSMsgType,
)

from engine.process import Process
from server.errors import ServiceError
from server.workers import messages
from server.workers.messages import (
    CONTROL,
    Drain,
    End,
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
    from aiohttp import ClientWebSocketResponse

    from server.places import OwnPlaces, Place
    from server.workers.job import Job

_PATIENCE = 60.0
"""Seconds that a worker may take to start."""
_WATCHDOG = 2.0
"""Seconds that it may say nothing."""
_LOOKS = 10
"""Looks at it within these; looks are counted, so that a machine that stood still lost nobody."""
_CLOSE = ClientWSTimeout(ws_close=0.5)
_FREED = 5.0
"""Seconds that a session may take to end for a newcomer."""


class Worker:
    """One worker; another process takes its place when it is lost."""

    def __init__(self, job: Job, places: OwnPlaces) -> None:
        self.job = job
        self.report = Report({}, "it has not started")
        self.http: ClientSession | None = None
        self._places = places
        self._lent: dict[int, Place] = {}
        self._debts: dict[int, float] = {}
        self._asked_back: dict[int, asyncio.Event] = {}
        self._lending: dict[int, asyncio.Task[None]] = {}
        self._process: Process | None = None
        self._control: ClientWebSocketResponse | None = None
        self._quiet = 0

    @property
    def sessions(self) -> int:
        """Places that it has."""
        return len(self._lent)

    @property
    def ready(self) -> bool:
        """Whether requests can be brought to it."""
        return self._control is not None

    async def start(self) -> None:
        """Starts a process; returns when it has said how it does.

        Raises:
            OSError: there can be none.
            TimeoutError: it does not answer in time.
        """
        self._process = Process.start("server.workers.worker", str(self.job.index))
        self._process.tell(pickle.dumps(self.job))
        timeout = ClientTimeout(total=None)
        self.http = ClientSession(
            "http://worker", connector=UnixConnector(str(self.job.socket)), timeout=timeout
        )
        async with asyncio.timeout(_PATIENCE):
            while self._control is None:
                if not self._process.runs:
                    raise ChildProcessError("it ended before it answered")
                try:
                    control = await self.http.ws_connect(CONTROL, timeout=_CLOSE)
                except ClientError:
                    await asyncio.sleep(0.02)
                    continue
                first = await control.receive()
                if first.type is WSMsgType.TEXT:
                    await self._received(messages.from_worker.decode(first.data))
                    self._control = control

    async def run(self) -> str:
        """Gives places and takes reports until the process is lost; returns how that showed."""
        assert self._control is not None
        self._quiet = 0
        watching = asyncio.create_task(self._watch())
        try:
            async for message in self._control:
                if message.type is WSMsgType.TEXT:
                    self._quiet = 0
                    await self._received(messages.from_worker.decode(message.data))
        finally:
            watching.cancel()
        return f"silent for {_WATCHDOG:g} s" if self._quiet >= _LOOKS else "its process ended"

    async def stop(self, grace: float = 0.0) -> int | None:
        """Ends the process, and gives back what it had; returns its exit code.

        One that answers is asked to by letting go of its connection, and has ``grace`` seconds.
        """
        control, self._control = self._control, None
        if control is not None:
            await control.close()
        if self.http is not None:
            await self.http.close()
        self.http = None
        process, self._process = self._process, None
        code = None
        if process is not None:
            asked = control is not None and grace
            code = await (process.leave(grace) if asked else process.kill())
        for number in (*self._lending, *self._lent):
            self._end(number)
        self.report = Report({}, "it is being started")
        return code

    async def drain(self, seconds: float) -> None:
        """Has it take no more callers."""
        await self._tell(Drain(seconds))

    async def figures(self) -> str:
        """What it says of itself, in Prometheus' text format; nothing if it does not answer."""
        assert self.http is not None
        try:
            async with asyncio.timeout(_WATCHDOG), self.http.get("/metrics") as answer:
                return await answer.text()
        except (TimeoutError, ClientError):
            return ""

    async def _received(self, message: messages.FromWorker) -> None:
        match message:
            case Take(number=number, names=names):
                # It may wait for another session to end, which is told here too.
                self._lending[number] = asyncio.create_task(self._lend(number, names))
            case End(number=number):
                self._end(number)
            case Offer(number=number):
                if place := self._lent.get(number):
                    place.offer(lambda: self._give_up(number))
            case Keep(number=number):
                if place := self._lent.get(number):
                    place.keep()
                self._decided(number)
            case Report():
                self.report = message
                await self._collect(message.heard)

    async def _lend(self, number: int, names: tuple[str, ...]) -> None:
        answer: messages.FromFront
        try:
            self._lent[number] = await self._places.take(names)
            answer = Taken(number)
        except ServiceError as error:
            answer = Refused.of(number, error)
        finally:
            self._lending.pop(number, None)
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
        if lending := self._lending.pop(number, None):
            lending.cancel()
        self._debts.pop(number, None)
        if place := self._lent.pop(number, None):
            place.end()
        self._decided(number)

    async def _tell(self, message: messages.FromFront) -> None:
        if self._control is not None:
            with contextlib.suppress(ConnectionError):
                await self._control.send_str(messages.text(message))

    async def _collect(self, heard: dict[int, float]) -> None:
        """Counts the sound that was heard; tells who owes what, where that is not as before."""
        now, before = time.monotonic_ns(), dict(self._debts)
        for number, seconds in heard.items():
            if place := self._lent.get(number):
                self._debts[number] = place.heard(seconds, now)
        self._debts = {number: debt for number, debt in self._debts.items() if debt}
        if self._debts or before:
            await self._tell(Owing(self._debts))

    async def _watch(self) -> None:
        assert self._control is not None
        while self._quiet < _LOOKS:
            await asyncio.sleep(_WATCHDOG / _LOOKS)
            self._quiet += 1
        await self._control.close()
