"""The server as a process: it starts, says where it is, and goes without dropping a word.

HTTP answers from the first moment, so that a probe can tell "starting" from "dead"; callers are
taken once the engine is warm. SIGTERM drains: no new callers, and those here may finish, a bounded
time. SIGINT, or a second signal, ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
import time
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from server import logs
from server.access import TOKEN_QUERY, access_of
from server.app import create_app
from server.manager import Manager
from server.observe import Metrics
from server.places import OwnPlaces
from server.settings import shown
from server.state import state_folder
from server.tls import CertificateProblem, operators_context, self_signed, server_context
from server.transport.addresses import AddressProblem, is_loopback, machine_addresses
from server.transport.webrtc.opus import library
from server.watch import watch_loop
from server.workers.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from engine.contract import Engine
    from server.access import Access
    from server.settings import ServerSettings

_QUIET = 75.0
"""Seconds that a connection may wait for its next request, or for the rest of one's head; longer
than the proxies in front of us keep theirs."""
_SHUTDOWN = 5.0
"""Seconds for open requests to end."""

log = structlog.get_logger(__name__)


class CannotListen(Exception):
    """The address cannot be had; the message says what to do."""


async def serve(
    engine: Engine,
    settings: ServerSettings,
    announce: Callable[[str], None] = print,
    shared: Path | None = None,
) -> None:
    """Serves until a signal; ``announce`` is told the address once callers are taken.

    Where there are media workers, ``shared`` is a folder of theirs and ours; ``engine`` can be
    joined there.

    Raises:
        CannotListen: the address or certificate cannot be used.
        CannotStart: a worker cannot.
        LibraryMissing: there is no libopus, or not where it was said to be.
        KeysProblem: there are API keys and they cannot be read.
        EngineError: the engine cannot be had.
    """
    began = time.monotonic()
    logs.report_loop_errors(asyncio.get_running_loop())
    log.info("starting", settings=shown(settings))
    library(settings.webrtc.sound.libopus)  # or each caller would find that it is missing
    metrics = Metrics()
    manager = Manager(engine, settings, metrics)
    rules = access_of(settings)
    pool = None
    if shared is not None:
        places = OwnPlaces(settings.limits, lambda: manager.capacity)
        pool = Pool(shared, settings, places, metrics, manager.check)
    house = _House(manager, pool)
    runner = web.AppRunner(
        create_app(manager, settings, metrics, rules, pool),
        access_log=None,
        keepalive_timeout=_QUIET,
        shutdown_timeout=_SHUTDOWN,
    )
    stopping = _Signals()
    watching = asyncio.create_task(watch_loop(metrics, manager.overload))
    try:
        port = await _listen(runner, settings)
        if not _secure(settings) and not is_loopback(settings.host):
            log.warning("browsers give pages here no microphone; see --tls self-signed")
        if await stopping.before(house.start()):
            manager.leavings.spare()
            announce(f"Ready in {time.monotonic() - began:.1f} s: {_url(settings, port, rules)}")
            await stopping.first.wait()
            if stopping.gently:
                await stopping.before(house.drain(settings.limits.drain), again=True)
    finally:
        watching.cancel()
        await house.stop()
        await runner.cleanup()
        stopping.close()
    log.info("stopped")


class _House:
    """Who has sessions: this process or, where there are any, the workers."""

    def __init__(self, manager: Manager, pool: Pool | None) -> None:
        self._manager = manager
        self._pool = pool

    async def start(self) -> None:
        await self._manager.start()
        if self._pool is not None:
            await self._pool.start()

    async def drain(self, seconds: float) -> None:
        await self._manager.drain(seconds)
        if self._pool is not None:
            await self._pool.drain(seconds)

    async def stop(self) -> None:
        if self._pool is not None:
            await self._pool.stop()
        await self._manager.stop()


class _Signals:
    """SIGINT and SIGTERM, counted."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self.gently = False
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._came, number)

    def close(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.remove_signal_handler(number)

    async def before(self, work: Coroutine[None, None, None], *, again: bool = False) -> bool:
        """Runs ``work`` unless a signal (``again``: another one) comes before it is done."""
        task = asyncio.ensure_future(work)
        signalled = asyncio.ensure_future((self.second if again else self.first).wait())
        try:
            await asyncio.wait({task, signalled}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
            return task.done()
        finally:
            signalled.cancel()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(task, signalled, return_exceptions=True)

    def _came(self, number: int) -> None:
        (self.second if self.first.is_set() else self.first).set()
        self.gently = number == signal.SIGTERM


async def _listen(runner: web.AppRunner, settings: ServerSettings) -> int:
    """Opens the port; returns its number."""
    context = _tls(settings)
    try:
        await runner.setup()
        site = web.TCPSite(runner, settings.host, settings.port, ssl_context=context)
        await site.start()
    except OSError as problem:
        where = f"{settings.host}:{settings.port}"
        raise CannotListen(
            f"cannot listen on {where}: {problem.strerror}; see --host and --port"
        ) from None
    except AddressProblem as problem:
        raise CannotListen(str(problem)) from None
    return int(runner.addresses[0][1])


def _tls(settings: ServerSettings) -> ssl.SSLContext | None:
    if settings.tls_cert is not None and settings.tls_key is not None:
        try:
            return operators_context(settings.tls_cert, settings.tls_key)
        except CertificateProblem as problem:
            raise CannotListen(str(problem)) from None
    if settings.tls == "self-signed":
        folder = state_folder() / "tls"
        addresses = (address for _, address in machine_addresses())
        names = (socket.gethostname(), *settings.allowed_hosts, *addresses)
        try:
            return server_context(*self_signed(folder, names))
        except OSError as problem:
            reason = problem.strerror
            raise CannotListen(f"tls: cannot keep a certificate in {folder}: {reason}") from None
    return None


def _secure(settings: ServerSettings) -> bool:
    return settings.tls != "off" or settings.tls_cert is not None


def _url(settings: ServerSettings, port: int, rules: Access) -> str:
    scheme = "https" if _secure(settings) else "http"
    host = settings.host
    if host in ("", "0.0.0.0", "::"):
        host = socket.gethostname()
    elif ":" in host:
        host = f"[{host}]"
    token = f"?{TOKEN_QUERY}={rules.token}" if rules.token else ""
    return f"{scheme}://{host}:{port}/{token}"
