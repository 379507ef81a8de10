"""``GET /v1/realtime``: a session, or a sideband of a running call, over a WebSocket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from server.access import CALLER
from server.errors import ServiceError, bad_request
from server.protocol.event import encode
from server.protocol.realtime.events import refusal
from server.protocol.realtime.opening import wanted
from server.transport import returning
from server.transport.direct import DirectSocket
from server.transport.joining import come_back, watch
from server.transport.models import asked_model
from server.transport.socket import refuse, serve, upgrade

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.caller import Caller
    from server.manager import Manager
    from server.observe import Metrics
    from server.protocol.realtime.opening import Kind
    from server.settings import ServerSettings
    from server.stay import Stay


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
            stay = realtime_call(self._manager, call_id, request[CALLER])
            return await watch(request, stay, self._metrics, "call_id")
        if returning.token(request):
            return await come_back(request, self._manager, self._metrics, _told, live=False)
        model, kind, session = self._wanted(request)
        ticket = self._manager.ticket()
        ws = await upgrade(request, ticket.token)
        try:
            open_ = wanted(session, model=model, kind=kind)
            stay = await self._manager.admit(open_, ticket, caller=request[CALLER])
        except ServiceError as error:
            await refuse(ws, _told(error), error)
            return ws
        await serve(ws, stay, self._metrics)
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


def realtime_call(manager: Manager, call_id: str, caller: Caller) -> Stay:
    """The call that a request names.

    Raises:
        ServiceError: there is none that ``caller`` reaches.
    """
    stay = manager.find(call_id, caller)
    if stay is None or stay.live:
        raise bad_request("call_not_found", "call_id: no such call", "call_id", 404)
    return stay


def _told(error: ServiceError) -> bytes:
    return encode(refusal(error))
