"""``POST /v1/realtime/calls``: WebRTC calls, as OpenAI's clients make them.

The offer comes as ``application/sdp``, or in a form beside a session object. A place is taken and
the call can be found before the answer is out. From then on a task of its own sees to the call's
end, whoever brings it about: the caller, the session, the watchdogs of the peer, or a request.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from server.access import CALLER
from server.errors import bad_request
from server.transport.addresses import machine_addresses, media_addresses
from server.transport.body import json_object, within
from server.transport.models import asked_model, model_of
from server.transport.webrtc.peer import Peer
from server.transport.webrtc.sdp import MAX_OFFER, Offer, OfferError, parse_offer

if TYPE_CHECKING:
    from server.manager import Manager
    from server.settings import ServerSettings
    from server.stay import Stay

MAX_REQUEST = 1024 * 1024
"""Bytes of an offer and a session object together."""
_LAST_CHANNEL = 65_534
_CLOSING = 5.0
_UNREADABLE = (ValueError, LookupError, RuntimeError, zlib.error, HttpProcessingError)
"""What reading a form raises that is not well formed."""

log = structlog.get_logger(__name__)


class Calls:
    """Takes, and ends, calls over WebRTC."""

    def __init__(self, manager: Manager, settings: ServerSettings) -> None:
        self._manager = manager
        self._settings = settings
        self._tasks: set[asyncio.Task[None]] = set()

    async def create(self, request: web.Request) -> web.Response:
        """Answers an offer with 201, the answer and the call's ``Location``.

        Raises:
            ServiceError: the request is no good, or there is no place.
        """
        text, given = await within(self._settings.limits.setup, _read(request))
        offer = _offer(text)
        dcid = _channel_id(request.query.get("dcid"))
        caller = request[CALLER]
        session = caller.asking(given)
        model = asked_model(
            model_of(session or {}) or request.query.get("model", ""),
            self._settings.names,
            self._manager.info,
        )
        stay = await self._manager.admit(model=model, paced=True, session=session, caller=caller)
        try:
            peer, answer = await self._answer(stay, offer, dcid)
        except BaseException as problem:
            await stay.end("failed")
            if isinstance(problem, OfferError):
                raise bad_request("invalid_sdp", f"sdp: {problem}", "sdp") from problem
            raise
        task = asyncio.create_task(_carry(stay, peer), name=f"call {stay.call_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return web.Response(
            status=201,
            body=answer.encode(),
            content_type="application/sdp",
            headers={"Location": f"/v1/realtime/calls/{stay.call_id}"},
        )

    async def hang_up(self, request: web.Request) -> web.Response:
        """Ends a call.

        Raises:
            ServiceError: there is no such call.
        """
        stay = self._manager.find(request.match_info["call_id"], request[CALLER])
        if stay is None:
            raise bad_request("call_not_found", "call_id: no such call", "call_id", 404)
        await stay.end("hangup")
        return web.Response()

    async def close(self) -> None:
        """Waits until every call has let go, a bounded time."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING)

    async def _answer(self, stay: Stay, offer: Offer, dcid: int | None) -> tuple[Peer, str]:
        settings = self._settings
        addresses = media_addresses(settings.host, settings.webrtc_addresses, machine_addresses())
        peer = Peer(
            offer,
            addresses,
            settings.limits.setup,
            lambda message: stay.receive(message, peer.events),
        )
        try:
            if offer.channel:
                stay.subscribe(peer.events)
            return peer, await peer.answer(dcid)
        except BaseException:
            await peer.close("failed")
            raise


async def _carry(stay: Stay, peer: Peer) -> None:
    """Connects a call's sound once it can pass, and ends both ends when one of them does."""
    structlog.contextvars.bind_contextvars(session=stay.id)
    reason = "failed"
    leaving = asyncio.create_task(stay.ended())
    lost = asyncio.create_task(peer.ended())
    connected = asyncio.create_task(peer.connected())
    try:
        await asyncio.wait({connected, leaving, lost}, return_when=asyncio.FIRST_COMPLETED)
        if connected.done() and connected.result() and not leaving.done():
            log.info("call connected")
            stay.carry(peer)
        await asyncio.wait({leaving, lost}, return_when=asyncio.FIRST_COMPLETED)
        if lost.done():
            reason = lost.result()
        else:
            reason = leaving.result()
            await peer.events.flush()
    finally:
        for task in (connected, leaving, lost):
            task.cancel()
        await stay.end(reason)
        await peer.close(reason)
        log.info("call closed", reason=reason, **peer.stats())


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


def _offer(text: str) -> Offer:
    if len(text) > MAX_OFFER:
        message = f"sdp: expected at most {MAX_OFFER} bytes, got {len(text)}"
        raise bad_request("request_too_large", message, "sdp", 413)
    try:
        return parse_offer(text)
    except OfferError as problem:
        raise bad_request("invalid_sdp", f"sdp: {problem}", "sdp") from problem


def _channel_id(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit() and int(text[:6]) <= _LAST_CHANNEL:
        return int(text)
    message = f"dcid: expected a whole number from 0 to {_LAST_CHANNEL}"
    raise bad_request("invalid_value", message, "dcid")
