"""The service in this process: its application on a loopback port, its engine simulated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from engine.simulated import create
from server.access import Access, access_of
from server.app import create_app
from server.manager import Manager
from server.observe import Metrics
from server.settings import ServerSettings


@dataclass
class Service:
    """What a test sees of it: ``caller`` sends requests."""

    manager: Manager
    metrics: Metrics
    access: Access
    caller: TestClient[web.Request, web.Application]


class _Server(TestServer):
    """As ours is run: a handler outlives its connection, and reads what came on it."""

    async def _make_runner(self, **options: Any) -> web.BaseRunner:
        return await super()._make_runner(**options | {"handler_cancellation": False})


@asynccontextmanager
async def service(
    *, start: bool = True, simulated: Mapping[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Service]:
    """A service with ``settings``; ``start``: its engine, ``simulated`` as that says, runs."""
    chosen = ServerSettings(**{"webrtc": {"addresses": ("127.0.0.1",), "port": 0}, **settings})
    metrics = Metrics()
    manager = Manager(create(simulated or {}), chosen, metrics)
    access = access_of(chosen)
    app = create_app(manager, chosen, metrics, access)
    async with TestClient(_Server(app)) as caller:
        if start:
            await manager.start()
        try:
            yield Service(manager, metrics, access, caller)
        finally:
            await manager.stop()
