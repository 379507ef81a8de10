"""The requests that start, find and end sessions, where these live in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from server.transport.live_sockets import LiveSockets
from server.transport.together import TOGETHER, Together
from server.transport.webrtc.calls import Calls
from server.transport.webrtc.live_calls import LiveCalls
from server.transport.webrtc.realtime_calls import RealtimeCalls
from server.transport.websocket import RealtimeSockets

if TYPE_CHECKING:
    from server.manager import Manager
    from server.observe import Metrics
    from server.settings import ServerSettings


def add_sessions(
    app: web.Application, manager: Manager, settings: ServerSettings, metrics: Metrics
) -> None:
    """Has ``app`` answer them with the sessions of ``manager``."""
    app[TOGETHER] = Together()
    calls = Calls(settings)
    realtime = RealtimeCalls(manager, settings, calls)
    live = LiveCalls(manager, settings, calls)
    live_sockets = LiveSockets(manager, settings, metrics)
    sockets = RealtimeSockets(manager, settings, metrics)
    app.add_routes(
        [
            web.get("/v1/realtime", sockets.handle),
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

    async def open_port(app: web.Application) -> None:
        await calls.start()

    async def let_go(app: web.Application) -> None:
        await calls.close()

    app.on_startup.append(open_port)
    app.on_shutdown.append(live_sockets.let_go)
    app.on_cleanup.append(let_go)
