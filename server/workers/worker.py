"""A media worker: ``python -m server.workers.worker INDEX``, started by the front.

It has sessions, whole: their protocol, their sound and, on a UDP port of its own, their calls. Its
HTTP requests come from the front alone, by a Unix socket, with the caller that the front has let
in; its engine is the front's. What it is to do comes by its standard input (:class:`Job`; INDEX is
for whoever looks at the processes), and it lives no longer than the front.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from engine import registry
from engine.contract import EngineError
from engine.process import end_with_parent
from server import logs
from server.access import CALLER
from server.answering import answer_errors
from server.manager import Manager
from server.observe import Metrics
from server.transport.addresses import AddressProblem
from server.transport.body import MAX_REQUEST
from server.transport.routes import add_sessions
from server.watch import watch_loop
from server.workers.desk import Desk
from server.workers.job import SENDER, Job, caller_of
from server.workers.messages import CONTROL

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

_LONGEST_FIELD = 2 * MAX_REQUEST
"""Bytes: a client secret's session is part of its caller."""
_SHUTDOWN = 2.0

log = structlog.get_logger("server.workers.worker")


@web.middleware
async def _believe(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Finds the caller whom the front has let in."""
    if SENDER in request.headers:
        request[CALLER] = caller_of(request.headers[SENDER])
    return await handler(request)


async def work(job: Job) -> None:
    """Serves until the front has gone, or lets go of the connection that it holds."""
    logs.report_loop_errors(asyncio.get_running_loop())
    metrics = Metrics()
    draining: set[asyncio.Task[None]] = set()

    def drain(seconds: float) -> None:
        draining.add(asyncio.create_task(manager.drain(seconds)))

    def busy() -> str:
        if manager.draining:
            return "it is going down"
        return manager.busy if manager.ready else f"its engine is {engine.state}"

    desk = Desk(busy, drain)
    settings = job.settings
    engine = registry.join(settings.engine.name, settings.engine.plain(), job.folder)
    manager = Manager(engine, settings, metrics, desk, job.mark)

    async def figures(request: web.Request) -> web.Response:
        return web.Response(body=metrics.render())

    app = web.Application(middlewares=[answer_errors, _believe], client_max_size=MAX_REQUEST)
    add_sessions(app, manager, settings, metrics)
    app.add_routes([web.get(CONTROL, desk.serve), web.get("/metrics", figures)])
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=_SHUTDOWN,
        max_field_size=_LONGEST_FIELD,
        keepalive_timeout=settings.limits.session,
    )
    watching = asyncio.create_task(watch_loop(metrics, manager.overload))
    try:
        await manager.start()
        await runner.setup()
        await web.UnixSite(runner, str(job.socket)).start()
        manager.leavings.spare()
        await desk.over.wait()
    finally:
        watching.cancel()
        await manager.stop()
        await runner.cleanup()


def main() -> None:
    """Runs the process."""
    job: Job = pickle.load(sys.stdin.buffer)
    end_with_parent()
    logs.configure(job.settings.log_level, job.settings.log_format)
    structlog.contextvars.bind_contextvars(worker=job.index)
    try:
        asyncio.run(work(job))
    except (AddressProblem, EngineError) as problem:
        log.error("worker cannot serve", reason=str(problem))
        sys.exit(1)


if __name__ == "__main__":
    main()
