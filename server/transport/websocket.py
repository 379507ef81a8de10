"""``GET /v1/realtime``: a session, or a sideband of a running call, over a WebSocket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from server.access import CALLER
from server.audience import SUBSCRIBERS
from server.errors import ServiceError, bad_request
from server.protocol.event import encode
from server.protocol.realtime.events import refusal
from server.protocol.realtime.opening import wanted
from server.transport import returning
from server.transport.direct import DirectSocket
from server.transport.models import asked_model
from server.transport.socket import refuse, serve, upgrade

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.manager import Manager
    from server.observe import Metrics
    from server.protocol.realtime.opening import Kind
    from server.settings import ServerSettings


class RealtimeSockets:
    """Answers WebSocket requests."""

    def __init__(self, manager: Manager, settings: ServerSettings, metrics: Metrics) -> None:
        self._manager = manager
        self._settings = settings
        self._metrics = metrics

    async def handle(self, request: web.Request) -> DirectSocket:
        """Upgrades, and serves the session to its end.

        Raises:
            ServiceError: the request is no good; it is answered before the upgrade.
        """
        call_id = request.query.get("call_id")
        if call_id is not None:
            stay = self._manager.find(call_id, request[CALLER])
            if stay is None or stay.live:
                raise bad_request("call_not_found", "call_id: no such call", "call_id", 404)
            if stay.audience.crowded:
                message = f"expected at most {SUBSCRIBERS} clients of one call"
                raise bad_request("too_many_sidebands", message, "call_id", 429)
            ws = await upgrade(request)
            await serve(ws, stay, self._metrics, "sideband")
            return ws
        if shown := returning.token(request):
            return await self._back(request, shown)
        model, kind, session = self._wanted(request)
        ticket = self._manager.ticket()
        ws = await upgrade(request, ticket.token)
        try:
            open_ = wanted(session, model=model, kind=kind)
            stay = await self._manager.admit(open_, ticket, caller=request[CALLER])
        except ServiceError as error:
            await refuse(ws, encode(refusal(error)), error)
            return ws
        await serve(ws, stay, self._metrics)
        return ws

    async def _back(self, request: web.Request, shown: str) -> DirectSocket:
        """Serves the session that the client comes back to."""
        try:
            stay = self._manager.back(shown, request[CALLER], live=False, leg=False)
        except ServiceError as error:
            ws = await upgrade(request)
            await refuse(ws, encode(refusal(error)), error)
            return ws
        ws = await upgrade(request, stay.tokens.renew(shown))
        await serve(ws, stay, self._metrics, after=returning.after(request))
        return ws

    def _wanted(self, request: web.Request) -> tuple[str, Kind, Mapping[str, Any] | None]:
        """The model, kind and session that the address and a client secret ask for.

        With ``intent=transcription`` a model beside it is the one that transcribes.
        """
        caller, model = request[CALLER], request.query.get("model", "")
        if request.query.get("intent") == "transcription":
            heard = {"transcription": {"model": model} if model else {}}
            session = {"type": "transcription", "audio": {"input": heard}}
            return "", "transcription", caller.asking(session)
        bound = caller.asking(None)
        model = model or (bound or {}).get("model", "")
        return asked_model(model, self._settings.names, self._manager.info), "realtime", bound
