"""The HTTP application: what lies at which path, and how errors leave it."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

from aiohttp import web

from server import access, openapi
from server.answering import answer_errors
from server.cors import cross_origin
from server.errors import bad_request
from server.pages import WEB, render
from server.transport.body import MAX_REQUEST
from server.transport.client_secrets import ClientSecretRequests
from server.transport.ice_servers import IceServers
from server.transport.models import default_model, model_objects
from server.transport.routes import add_sessions
from server.workers.gateway import Gateway

if TYPE_CHECKING:
    from server.access import Access
    from server.manager import Manager
    from server.observe import Metrics
    from server.settings import ServerSettings
    from server.workers.pool import Pool

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def create_app(
    manager: Manager,
    settings: ServerSettings,
    metrics: Metrics,
    rules: Access,
    pool: Pool | None = None,
) -> web.Application:
    """The application; the caller starts and stops ``manager`` and ``pool``, whose workers have the
    sessions where there is one.
    """
    app = web.Application(
        middlewares=[answer_errors, access.guard(rules)], client_max_size=MAX_REQUEST
    )
    app.on_response_prepare.append(cross_origin(rules))
    if pool is None:
        add_sessions(app, manager, settings, metrics)
    else:
        Gateway(pool, settings).add_to(app)
    secrets = ClientSecretRequests(manager, settings, rules.secrets)
    about = _About(manager, settings, metrics, pool)
    app.add_routes(
        [
            web.get("/health", about.health),
            web.get("/ready", about.ready),
            web.get("/metrics", about.metrics),
            web.get("/openapi.json", about.openapi),
            web.get("/v1/models", about.models),
            web.get("/v1/models/{model}", about.model),
            web.get("/v1/ice-servers", IceServers(settings.webrtc.ice_servers).answer),
            web.post("/v1/realtime/client_secrets", secrets.create),
        ]
    )
    if settings.page:
        app.add_routes([web.get("/", about.page), web.static("/static", WEB / "static")])
    return app


class _About:
    """What the service says of itself."""

    def __init__(
        self, manager: Manager, settings: ServerSettings, metrics: Metrics, pool: Pool | None
    ) -> None:
        self._pool = pool
        self._manager = manager
        self._settings = settings
        self._metrics = metrics
        self._version = metadata.version("parley-voice")

    async def health(self, request: web.Request) -> web.Response:
        workers = {} if self._pool is None else {"workers": self._pool.told()}
        return web.json_response({"status": "ok", "busy": self._manager.busy, **workers})

    async def ready(self, request: web.Request) -> web.Response:
        manager = self._manager
        state = "draining" if manager.draining else manager.engine.state
        ready = manager.ready and (self._pool is None or self._pool.ready)
        return web.json_response({"status": state}, status=200 if ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        self._metrics.engine(self._manager.engine.figures())
        workers = {} if self._pool is None else await self._pool.figures()
        body = self._metrics.render(workers)
        return web.Response(body=body, headers={"Content-Type": _METRICS_TYPE})

    async def openapi(self, request: web.Request) -> web.Response:
        return web.json_response(openapi.document(self._version))

    async def models(self, request: web.Request) -> web.Response:
        listed = model_objects(self._settings.names, self._manager.info)
        return web.json_response({"object": "list", "data": listed})

    async def model(self, request: web.Request) -> web.Response:
        wanted = request.match_info["model"]
        for model in model_objects(self._settings.names, self._manager.info):
            if model["id"] == wanted:
                return web.json_response(model)
        raise bad_request("model_not_found", "model: no such model", "model", 404)

    async def page(self, request: web.Request) -> web.Response:
        model = default_model(self._settings.names)
        text = render("index.html", title="Parley", version=self._version, model=model)
        return web.Response(
            text=text, content_type="text/html", headers={"Cache-Control": "no-cache"}
        )
