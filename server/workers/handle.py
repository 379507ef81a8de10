"""A media worker as the front sees it: its process, and the connection to that."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
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
from server.workers import messages
from server.workers.lending import Lending
from server.workers.messages import CONTROL, Drain, Report

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

    from server.places import OwnPlaces
    from server.workers.job import Job

_PATIENCE = 60.0
"""Seconds that a worker may take to start."""
_WATCHDOG = 2.0
"""Seconds that it may say nothing."""
_LOOKS = 10
"""Looks at it within these; looks are counted, so that a machine that stood still lost nobody."""
_CLOSE = ClientWSTimeout(ws_close=0.5)


class Worker:
    """One worker; another process takes its place when it is lost."""

    def __init__(self, job: Job, places: OwnPlaces) -> None:
        self.job = job
        self.report = Report({}, "it has not started")
        self.http: ClientSession | None = None
        self._lending = Lending(places, self._tell)
        self._process: Process | None = None
        self._control: ClientWebSocketResponse | None = None
        self._quiet = 0

    @property
    def sessions(self) -> int:
        """Places that it has."""
        return self._lending.lent

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
        self._lending.end()
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
        if isinstance(message, Report):
            self.report = message
        await self._lending.received(message)

    async def _tell(self, message: messages.FromFront) -> None:
        if self._control is not None:
            with contextlib.suppress(ConnectionError):
                await self._control.send_str(messages.text(message))

    async def _watch(self) -> None:
        assert self._control is not None
        while self._quiet < _LOOKS:
            await asyncio.sleep(_WATCHDOG / _LOOKS)
            self._quiet += 1
        await self._control.close()
