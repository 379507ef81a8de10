"""Calls over WebRTC, from an offer to their end, whatever the protocol that they are asked for in.

A place is taken and the call can be found before the answer is out. From then on a task of its own
sees to the call's end, whoever brings it about: the caller, the session, the watchdogs of the peer,
or a request.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

from server.errors import bad_request
from server.transport.addresses import (
    check_chosen,
    machine_addresses,
    media_addresses,
    resolve,
)
from server.transport.webrtc.peer import Peer
from server.transport.webrtc.port import MediaPort
from server.transport.webrtc.sdp import MAX_OFFER, Offer, OfferError, parse_offer

if TYPE_CHECKING:
    from server.presence import Tenure
    from server.settings import ServerSettings
    from server.stay import Stay

LAST_CHANNEL = 65_534
"""The highest id of a data channel."""
_CLOSING = 5.0

log = structlog.get_logger(__name__)


class Calls:
    """The calls of this server that have not let go."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._port = MediaPort(0)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Opens the port.

        Raises:
            AddressProblem: it cannot be had.
        """
        self._port = await media_port(self._settings)

    async def answer(
        self, stay: Stay, offer: Offer, dcid: int | None, at: str = "sdp", after: str = ""
    ) -> str:
        """Takes a call for ``stay``, or its caller back; returns the SDP answer.

        Args:
            dcid: the id of a data channel that the caller created as already negotiated.
            at: where the offer came from.
            after: the last event that a caller who comes back has.

        Raises:
            ServiceError: the offer cannot be answered; a session that it was to begin has ended.
        """
        try:
            peer, answer = await self._answer(stay, offer, dcid)
        except BaseException as problem:
            if not stay.attended:
                await stay.end("failed")
            if isinstance(problem, OfferError):
                raise bad_request("invalid_sdp", f"{at}: {problem}", at) from problem
            raise
        tenure = stay.attend(peer.events if offer.channel else None, after)
        task = asyncio.create_task(_carry(stay, peer, tenure), name=f"call {stay.call_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return answer

    async def close(self) -> None:
        """Waits until every call has let go, a bounded time; then of the port."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING)
        self._port.close()

    async def _answer(self, stay: Stay, offer: Offer, dcid: int | None) -> tuple[Peer, str]:
        settings = self._settings
        self._port.follow(_addresses(settings))
        peer = Peer(
            offer,
            self._port,
            settings.webrtc.sound,
            stay.session.info.input_rate,
            settings.limits.setup,
            received=lambda message: stay.inbox.receive(message, peer.events),
            refused=lambda error: stay.refuse(peer.events, error),
        )
        try:
            return peer, await peer.answer(dcid)
        except BaseException:
            await peer.close("failed")
            raise


async def media_port(settings: ServerSettings) -> MediaPort:
    """The port that ``settings`` ask for, open.

    Raises:
        AddressProblem: it cannot be had.
    """
    webrtc = settings.webrtc
    check_chosen(webrtc.addresses, machine_addresses())
    public = await resolve(webrtc.public_addresses, "webrtc.public_addresses")
    port = MediaPort(settings.media_port, public)
    port.open(_addresses(settings))
    return port


def _addresses(settings: ServerSettings) -> list[str]:
    """Those that this machine has now, and calls may use."""
    return media_addresses(settings.host, settings.webrtc.addresses, machine_addresses())


async def _carry(stay: Stay, peer: Peer, tenure: Tenure) -> None:
    """Connects a call's sound once it can pass, and sees to the end: that of the session, of the
    connection, or of its time because another one has the call.
    """
    structlog.contextvars.bind_contextvars(session=stay.id)
    reason = "failed"
    leaving = asyncio.create_task(stay.ended())
    lost = asyncio.create_task(peer.ended())
    connected = asyncio.create_task(peer.connected())
    ends: set[asyncio.Future[Any]] = {leaving, lost, tenure}
    try:
        await asyncio.wait({connected, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if connected.done() and connected.result() and not (leaving.done() or tenure.done()):
            log.info("call connected")
            stay.carry(peer)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            reason = leaving.result()
            await peer.events.flush()
        else:
            reason = lost.result() if lost.done() else "replaced"
    finally:
        for task in (connected, leaving, lost):
            task.cancel()
        await stay.leave(tenure, reason)
        await peer.close(reason)
        log.info("call closed", reason=reason, **peer.stats())


def offer_of(text: str, at: str = "sdp") -> Offer:
    """The offer in a request's ``at``.

    Raises:
        ServiceError: it is none, or too long.
    """
    if len(text) > MAX_OFFER:
        message = f"{at}: expected at most {MAX_OFFER} bytes, got {len(text)}"
        raise bad_request("request_too_large", message, at, 413)
    try:
        return parse_offer(text)
    except OfferError as problem:
        raise bad_request("invalid_sdp", f"{at}: {problem}", at) from problem
