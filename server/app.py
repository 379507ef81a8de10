"""The HTTP application: what lies at which path, and how errors leave it."""

from __future__ import annotations

from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import structlog
from aiohttp import web

from server import access, openapi
from server.cors import cross_origin
from server.errors import ServiceError, bad_request
from server.transport.body import MAX_REQUEST
from server.transport.client_secrets import ClientSecretRequests
from server.transport.ice_servers import IceServers
from server.transport.live_sockets import LiveSockets
from server.transport.models import default_model, model_objects
from server.transport.webrtc.calls import Calls
from server.transport.webrtc.live_calls import LiveCalls
from server.transport.webrtc.realtime_calls import RealtimeCalls
from server.transport.websocket import RealtimeSockets

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

    from server.access import Access
    from server.manager import Manager
    from server.observe import Metrics
    from server.settings import ServerSettings

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

log = structlog.get_logger(__name__)


def create_app(
    manager: Manager, settings: ServerSettings, metrics: Metrics, rules: Access
) -> web.Application:
    """The application; the caller starts and stops ``manager``."""
    app = web.Application(
        middlewares=[answer_errors, access.guard(rules)], client_max_size=MAX_REQUEST
    )
    app.on_response_prepare.append(cross_origin(rules))
    calls = Calls(settings)
    realtime = RealtimeCalls(manager, settings, calls)
    live = LiveCalls(manager, settings, calls)
    live_sockets = LiveSockets(manager, settings, metrics)
    sockets = RealtimeSockets(manager, settings, metrics)
    secrets = ClientSecretRequests(manager, settings, rules.secrets)
    about = _About(manager, settings, metrics)
    app.add_routes(
        [
            web.get("/health", about.health),
            web.get("/ready", about.ready),
            web.get("/metrics", about.metrics),
            web.get("/openapi.json", about.openapi),
            web.get("/v1/models", about.models),
            web.get("/v1/models/{model}", about.model),
            web.get("/v1/ice-servers", IceServers(settings.webrtc.ice_servers).answer),
            web.get("/v1/realtime", sockets.handle),
            web.post("/v1/realtime/client_secrets", secrets.create),
            web.post("/v1/realtime/calls", realtime.create),
            web.post("/v1/realtime/calls/{call_id}/hangup", realtime.hang_up),
            web.delete("/v1/realtime/calls/{call_id}", realtime.hang_up),
            web.get("/v1/live/sessions", live_sockets.start),
            web.post("/v1/live/sessions", live.create),
            web.get("/v1/live/sessions/{session_id}/attach", live_sockets.attach),
            web.post("/v1/live/sessions/{session_id}/hangup", live.hang_up),
            web.get("/v1/live/sessions/{session_id}/fork", live.unsupported),
            web.post("/v1/live/sessions/{session_id}/fork", live.unsupported),
            web.post("/v1/live/sessions/{session_id}/accept", live.unsupported),
            web.post("/v1/live/sessions/{session_id}/reject", live.unsupported),
            web.post("/v1/live/sessions/{session_id}/refer", live.unsupported),
            web.get("/v1/live/sessions/{session_id}/content", live.unsupported),
        ]
    )
    if settings.page:
        app.add_routes([web.get("/", about.page), web.static("/static", _web() / "static")])

    async def open_port(app: web.Application) -> None:
        await calls.start()

    async def let_go(app: web.Application) -> None:
        await calls.close()

    app.on_startup.append(open_port)
    app.on_shutdown.append(live_sockets.let_go)
    app.on_cleanup.append(let_go)
    return app


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error leaves as OpenAI's JSON; one of ours is logged, and its text stays here."""
    try:
        return await handler(request)
    except ServiceError as error:
        return _response(error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        code = error.reason.lower().replace(" ", "_")
        return _response(bad_request(code, error.reason, status=error.status))
    except Exception:
        log.exception("request failed", method=request.method, path=request.path)
        return _response(
            ServiceError(500, "server_error", "internal_error", "the server failed; see its log")
        )


class _About:
    """What the service says of itself."""

    def __init__(self, manager: Manager, settings: ServerSettings, metrics: Metrics) -> None:
        self._manager = manager
        self._settings = settings
        self._metrics = metrics
        self._version = metadata.version("parley-voice")
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_web() / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
        )

    async def health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def ready(self, request: web.Request) -> web.Response:
        manager = self._manager
        state = "draining" if manager.draining else manager.engine.state
        return web.json_response({"status": state}, status=200 if manager.ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        self._metrics.engine(self._manager.engine.figures())
        return web.Response(body=self._metrics.render(), headers={"Content-Type": _METRICS_TYPE})

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
        text = self._templates.get_template("index.html").render(
            title="Parley",
            version=self._version,
            model=default_model(self._settings.names),
        )
        return web.Response(
            text=text, content_type="text/html", headers={"Cache-Control": "no-cache"}
        )


def _response(error: ServiceError) -> web.Response:
    return web.json_response(error.body(), status=error.status, headers=error.headers())


def _web() -> Path:
    return Path(str(resources.files("web")))
