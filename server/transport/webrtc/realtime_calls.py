"""``POST /v1/realtime/calls``: WebRTC calls, as OpenAI's Realtime clients make them.

The offer comes as ``application/sdp``, or in a form beside a session object.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from server.access import CALLER
from server.errors import bad_request
from server.protocol.realtime.opening import wanted
from server.resume import HEADER
from server.transport import returning
from server.transport.body import json_object, within
from server.transport.models import asked_model, model_of
from server.transport.webrtc.calls import LAST_CHANNEL, Calls, offer_of
from server.transport.websocket import realtime_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.manager import Manager, Open
    from server.settings import ServerSettings

_UNREADABLE = (ValueError, LookupError, RuntimeError, zlib.error, HttpProcessingError)
"""What reading a form raises that is not well formed."""


class RealtimeCalls:
    """Takes, and ends, calls in the Realtime protocol."""

    def __init__(self, manager: Manager, settings: ServerSettings, calls: Calls) -> None:
        self._manager = manager
        self._settings = settings
        self._calls = calls

    async def create(self, request: web.Request) -> web.Response:
        """Answers an offer with 201, the answer and the call's ``Location``.

        Raises:
            ServiceError: the request is no good, or there is no place.
        """
        text, given = await within(self._settings.limits.setup, _read(request))
        offer = offer_of(text)
        dcid = _channel_id(request.query.get("dcid"))
        caller = request[CALLER]
        if shown := returning.token(request):
            stay = self._manager.back(shown, caller, live=False, leg=True)
        else:
            stay = await self._manager.admit(self._wanted(request, given), leg=True, caller=caller)
        token = stay.tokens.renew(shown) if shown else stay.tokens.newest
        answer = await self._calls.answer(stay, offer, dcid, after=returning.after(request))
        return web.Response(
            status=201,
            body=answer.encode(),
            content_type="application/sdp",
            headers={"Location": f"/v1/realtime/calls/{stay.call_id}", HEADER: token},
        )

    async def hang_up(self, request: web.Request) -> web.Response:
        """Ends a call.

        Raises:
            ServiceError: there is no such call.
        """
        call_id = request.match_info["call_id"]
        await realtime_call(self._manager, call_id, request[CALLER]).end("hangup")
        return web.Response()

    def _wanted(self, request: web.Request, given: Mapping[str, Any] | None) -> Open:
        session = request[CALLER].asking(given)
        asked = model_of(session or {}) or request.query.get("model", "")
        return wanted(session, model=asked_model(asked, self._settings.names, self._manager.info))


async def _read(request: web.Request) -> tuple[str, dict[str, Any] | None]:
    """The offer's text and the session object beside it, if there is one."""
    if request.content_type == "application/sdp":
        return _text(await request.read(), "sdp"), None
    if request.content_type != "multipart/form-data":
        raise bad_request(
            "invalid_content_type",
            "Content-Type: expected application/sdp or multipart/form-data",
            status=415,
        )
    try:
        form = await request.post()
    except _UNREADABLE:
        raise bad_request("invalid_form", "expected a multipart form") from None
    if "sdp" not in form:
        raise bad_request("missing_required_parameter", "sdp: expected an SDP offer", "sdp")
    session = form.get("session")
    return _text(form["sdp"], "sdp"), None if session is None else json_object(
        _text(session, "session"), "invalid_value", "session"
    )


def _text(value: object, param: str) -> str:
    if isinstance(value, web.FileField):
        value = value.file.read()
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise bad_request("invalid_value", f"{param}: expected UTF-8", param) from None
    return str(value)


def _channel_id(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit() and int(text[:6]) <= LAST_CHANNEL:
        return int(text)
    message = f"dcid: expected a whole number from 0 to {LAST_CHANNEL}"
    raise bad_request("invalid_value", message, "dcid")
