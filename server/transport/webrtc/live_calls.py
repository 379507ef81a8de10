"""GPT-Live over WebRTC, and the requests about a running session.

``POST /v1/live/sessions`` brings configuration and offer in one JSON object, and starts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from aiohttp import web
from msgspec import Meta, Struct

from server.errors import bad_request, refused
from server.protocol.live.config import config_of
from server.protocol.live.opening import wanted
from server.protocol.wire import convert
from server.requests import RequestError
from server.resume import HEADER
from server.transport import returning
from server.transport.body import json_object, within
from server.transport.live_sockets import live_session, owner_of
from server.transport.models import asked_model
from server.transport.webrtc.calls import LAST_CHANNEL, Calls, offer_of

if TYPE_CHECKING:
    from server.manager import Manager
    from server.protocol.live.config import Config
    from server.settings import ServerSettings


class Transport(Struct, frozen=True, forbid_unknown_fields=True):
    """The caller's offer; ``dcid`` is the id of a data channel that it agreed on beforehand."""

    type: Literal["webrtc"]
    sdp: str
    dcid: Annotated[int, Meta(ge=0, le=LAST_CHANNEL)] | None = None


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """The request's body."""

    session: Any
    transport: Transport


class LiveCalls:
    """Takes, and ends, calls in the GPT-Live protocol."""

    def __init__(self, manager: Manager, settings: ServerSettings, calls: Calls) -> None:
        self._manager = manager
        self._settings = settings
        self._calls = calls

    async def create(self, request: web.Request) -> web.Response:
        """Answers an offer with 201, the answer and the session's id.

        Raises:
            ServiceError: the request is no good, or there is no place.
        """
        caller = owner_of(request)
        body = await within(self._settings.limits.setup, request.read())
        fields = json_object(body, "invalid_json")
        shown, after = returning.token(request), returning.after(request)
        try:
            given: Wanted = convert(fields, Wanted)
            config = None if shown else self._config(given.session)
            offer = offer_of(given.transport.sdp, "transport.sdp")
            if config is None:
                stay = self._manager.back(shown, caller, live=True, leg=True)
            else:
                ticket = self._manager.ticket(live=True)
                stay = await self._manager.admit(wanted(config), ticket, leg=True, caller=caller)
        except RequestError as error:
            raise refused(error) from None
        token = stay.tokens.renew(shown) if shown else stay.tokens.newest
        dcid, at = given.transport.dcid, "transport.sdp"
        answer = await self._calls.answer(stay, offer, dcid, at, after)
        told = {"session": {"id": stay.id}, "transport": {"type": "webrtc", "sdp": answer}}
        return web.json_response(told, status=201, headers={HEADER: token})

    def _config(self, session: Any) -> Config:
        config = config_of(session, leg=True)
        asked_model(config.model, self._settings.names, self._manager.info, "session.model")
        return config

    async def hang_up(self, request: web.Request) -> web.Response:
        """Ends a session.

        Raises:
            ServiceError: there is no such session.
        """
        await live_session(self._manager, request).end("close_requested")
        return web.Response()

    async def unsupported(self, request: web.Request) -> web.Response:
        """Refuses by name what of the API this server does not do.

        Raises:
            ServiceError: always.
        """
        action = request.path.rpartition("/")[2]
        raise bad_request("unsupported", f"{action}: not supported here", status=501)
