"""GPT-Live over WebSockets: ``/v1/live/sessions`` and a session's ``/attach``.

A socket comes before its session, which begins with the client's ``session.start``. A start that
cannot be had, even because every place is taken, leaves the socket as it was: the client may start
again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from server.access import CALLER
from server.errors import ServiceError, bad_request
from server.protocol.event import encode
from server.protocol.live import client_events as client
from server.protocol.live import events
from server.protocol.live.config import config_of
from server.protocol.live.opening import wanted
from server.protocol.wire import decode
from server.requests import RequestError
from server.transport import returning
from server.transport.direct import DirectSocket
from server.transport.joining import come_back, watch
from server.transport.models import asked_model
from server.transport.socket import serve, upgrade

if TYPE_CHECKING:
    from server.caller import Caller
    from server.manager import Manager
    from server.observe import Metrics
    from server.resume import Ticket
    from server.settings import ServerSettings
    from server.stay import Stay

START = 15.0
"""Seconds that a client may take to start, and to start again."""
STARTS = 32
"""Events that may come before one starts."""

log = structlog.get_logger(__name__)


class LiveSockets:
    """Answers WebSocket requests of the protocol."""

    def __init__(self, manager: Manager, settings: ServerSettings, metrics: Metrics) -> None:
        self._manager = manager
        self._settings = settings
        self._metrics = metrics
        self._unstarted: set[DirectSocket] = set()

    async def start(self, request: web.Request) -> DirectSocket:
        """Upgrades, and serves the session that the client starts, to its end.

        Raises:
            ServiceError: the request is no good; it is answered before the upgrade.
        """
        caller = owner_of(request)
        if returning.token(request):
            return await come_back(request, self._manager, self._metrics, _told, live=True)
        ticket = self._manager.ticket(live=True)
        ws = await upgrade(request, ticket.token)
        self._unstarted.add(ws)
        try:
            stay = await self._started(ws, ticket, caller)
        finally:
            self._unstarted.discard(ws)
        if stay is None:
            await ws.close(code=WSCloseCode.POLICY_VIOLATION, message=b"session_not_started")
        else:
            await serve(ws, stay, self._metrics)
        return ws

    async def attach(self, request: web.Request) -> DirectSocket:
        """Upgrades, and lets the client watch and steer a session until it or the socket ends.

        Raises:
            ServiceError: there is no such session, or too many watch it.
        """
        stay = live_session(self._manager, request)
        return await watch(request, stay, self._metrics, "session_id")

    async def let_go(self, app: web.Application) -> None:
        """Closes the sockets whose session has not been started: the server is going down."""
        closing = (ws.close(code=WSCloseCode.GOING_AWAY) for ws in tuple(self._unstarted))
        await asyncio.gather(*closing)

    async def _started(self, ws: DirectSocket, ticket: Ticket, caller: Caller) -> Stay | None:
        """The session that the client starts; None if it does not, in time or at all."""
        for _ in range(STARTS):
            try:
                message = await ws.receive(timeout=START)
            except TimeoutError:
                error = RequestError("session_not_started", f"Expected session.start in {START} s.")
                await ws.send_text(_told(error))
                return None
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                return None
            event_id: str | None = None
            try:
                if message.type is WSMsgType.BINARY:
                    raise RequestError("invalid_event", "Expected a text frame, got a binary one.")
                fields = decode(message.data)
                event_id = client.id_of(fields)
                return await self._start(client.event_of(fields), ticket, caller)
            except (RequestError, ServiceError) as error:
                refusal = _told(error, event_id)
            await ws.send_text(refusal)
        return None

    async def _start(self, event: client.ClientEvent, ticket: Ticket, caller: Caller) -> Stay:
        if not isinstance(event, client.SessionStart):
            message = "Expected session.start first."
            raise RequestError("session_not_started", message, "type")
        config = config_of(event.session, leg=False)
        asked_model(config.model, self._settings.names, self._manager.info, "session.model")
        return await self._manager.admit(wanted(config, event.event_id), ticket, caller=caller)


def owner_of(request: web.Request) -> Caller:
    """Who asks for a session.

    Raises:
        ServiceError: a client secret was shown: it holds what sessions it starts, and those are
            Realtime's.
    """
    caller: Caller = request[CALLER]
    if caller.secret is not None:
        message = "client secrets start Realtime sessions; expected an API key"
        raise bad_request("permission_denied", message, status=403)
    return caller


def live_session(manager: Manager, request: web.Request) -> Stay:
    """The session that a request's path names.

    Raises:
        ServiceError: there is none that its caller reaches.
    """
    stay = manager.find(request.match_info["session_id"], request[CALLER])
    if stay is None or not stay.live:
        message = "session_id: no such session"
        raise bad_request("session_not_found", message, "session_id", 404)
    return stay


def _told(error: ServiceError | RequestError, event_id: str | None = None) -> bytes:
    return encode(events.refusal(error, event_id))
