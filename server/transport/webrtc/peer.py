"""One WebRTC call on aiortc: negotiation, liveness and end. It is the call's leg.

The answer holds all our candidates and is given at once: the offer needs none, since the caller's
first check tells its address. A call that does not connect, or whose peer falls silent, ends by
itself. Whatever happens, it ends once, for one reason, and :meth:`Peer.close` leaves nothing.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import structlog
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.codecs import get_capabilities
from aiortc.rtcconfiguration import RTCBundlePolicy

from server.transport.webrtc import sender, stock
from server.transport.webrtc.channel import EventChannel
from server.transport.webrtc.opus import RATES, Controls, OpusEncoder
from server.transport.webrtc.receiver import Receiver
from server.transport.webrtc.sdp import Offer, OfferError, with_opus
from server.transport.webrtc.sender import Sender

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from aiortc import RTCDataChannel

    from engine.contract import Samples
    from server.errors import ServiceError
    from server.transport.leg import Frame
    from server.transport.webrtc.port import MediaPort
    from server.transport.webrtc.rtp import Packet
    from server.webrtc_settings import Sound

_SILENCE = 8.0
"""Seconds without an authenticated packet after which a peer is lost. A living one is checked for
consent every 4 to 6 s (RFC 7675 section 5.1), and sends reports more often than that."""
_CLOSING = 3.0

_CODECS = {codec.mimeType: codec for codec in get_capabilities("audio").codecs}
_TAKEN = [_CODECS[name] for name in ("audio/opus", "audio/telephone-event")]

log = structlog.get_logger(__name__)


class Peer:
    """A caller over WebRTC, as a :class:`server.transport.leg.Leg`.

    Args:
        offer: what the caller offered.
        port: sends and hears for all calls.
        sound: how it is coded.
        rate: Hz, at which its sound is heard if Opus can be decoded to it.
        setup_timeout: seconds from the answer to a connected call with an open channel.
        received: called with each event the caller sends.
        refused: called where an event cannot be sent to it.
    """

    def __init__(
        self,
        offer: Offer,
        port: MediaPort,
        sound: Sound,
        rate: int,
        setup_timeout: float,
        received: Callable[[str], None],
        refused: Callable[[ServiceError], None],
    ) -> None:
        self._offer = offer
        self._port = port
        self._sound = sound
        self._setup_timeout = setup_timeout
        self._connection = RTCPeerConnection(
            RTCConfiguration(iceServers=[], bundlePolicy=RTCBundlePolicy.MAX_BUNDLE)
        )
        controls = Controls(sound.mode, sound.bitrate, sound.complexity, sound.dtx, sound.fec)
        self._sender = Sender(
            OpusEncoder(sender.RATE, controls, sound.libopus),
            sound.packet_ms * sender.RATE // 1000,
            stock.Outlet(self._connection, lambda share: self._sender.lost(share)).send,
        )
        heard_at = rate if rate in RATES else RATES[-1]
        self._receiver = Receiver(heard_at, self._fail, sound.libopus)
        self.events = EventChannel(offer.max_message, received, refused, self._end)
        loop = asyncio.get_running_loop()
        self._connected: asyncio.Future[bool] = loop.create_future()
        self._ended: asyncio.Future[str] = loop.create_future()
        self._heard = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing: asyncio.Task[None] | None = None

    async def answer(self, dcid: int | None = None) -> str:
        """The SDP answer; from here on the caller has the set-up time to connect.

        ``dcid`` is the id of a data channel that the caller created as already negotiated.

        Raises:
            OfferError: the offer cannot be answered.
        """
        connection = self._connection
        connection.on("datachannel", self._on_channel)
        connection.on("connectionstatechange", self._on_state)
        connection.getTransceivers()[0].setCodecPreferences(_TAKEN)
        try:
            await connection.setRemoteDescription(RTCSessionDescription(self._offer.sdp, "offer"))
        except Exception as problem:  # the stack's parser raises whatever its line happens to
            raise OfferError(f"cannot be answered ({type(problem).__name__})") from problem
        # The first transceiver is that of our sound; it was matched with the first one offered.
        for transceiver in connection.getTransceivers()[1:]:
            transceiver.direction = "inactive"
        if dcid is not None and self._offer.channel:
            self._on_channel(connection.createDataChannel("oai-events", negotiated=True, id=dcid))
        stock.share(connection, self._port)
        stock.when_heard(connection, self._on_heard)
        stock.bound_events(connection, self._on_excess)
        stock.take_packets(connection, self._on_packet)
        await connection.setLocalDescription(await connection.createAnswer())
        self._start(self._watch())
        return with_opus(connection.localDescription.sdp, self._sound.caller_bitrate)

    async def connected(self) -> bool:
        """Waits until sound and events can pass; False if the call ended before."""
        return await asyncio.shield(self._connected)

    # The leg -------------------------------------------------------------------------------------

    @property
    def input_rate(self) -> int:
        return self._receiver.rate

    @property
    def output_rate(self) -> int:
        return sender.RATE

    def frames(self) -> AsyncIterator[Frame]:
        return self._receiver.frames()

    def send(self, pcm: Samples) -> None:
        self._sender.send(pcm)

    @property
    def silent(self) -> float:
        return time.monotonic() - self._heard

    # Its end ------------------------------------------------------------------------------------

    async def ended(self) -> str:
        """Waits for the end; ``hangup``, ``peer_lost``, ``never_connected`` or ``failed``."""
        return await asyncio.shield(self._ended)

    def stats(self) -> Mapping[str, float]:
        """Counters and last figures, by name."""
        return {
            **self._receiver.stats(),
            "samples_out": self._sender.sent,
            "dropped_out": self._sender.dropped,
        }

    async def close(self, reason: str = "hangup") -> None:
        """Ends the call; safe to call twice."""
        self._end(reason)
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    # How it lives and ends -----------------------------------------------------------------------

    def _on_packet(self, packet: Packet, coded: str) -> None:
        self._on_heard()
        if coded == "opus":
            self._receiver.take(packet)
        else:
            self._receiver.press(packet)

    def _on_channel(self, channel: RTCDataChannel) -> None:
        self.events.attach(channel, self._check_connected)

    def _on_state(self) -> None:
        state = self._connection.connectionState
        if state == "connected":
            self._check_connected()
        elif state == "failed":
            self._end("peer_lost" if self._connected.done() else "never_connected")
        elif state == "closed":
            self._end("hangup")

    def _check_connected(self) -> None:
        complete = self.events.is_open or not self._offer.channel
        if complete and self._connection.connectionState == "connected":
            self._set_connected(True)

    def _on_heard(self) -> None:
        self._heard = time.monotonic()

    def _on_excess(self) -> None:
        if not self._ended.done():
            log.warning("caller sends events without an end")
            self._end("failed")

    async def _watch(self) -> None:
        try:
            async with asyncio.timeout(self._setup_timeout):
                await self.connected()
        except TimeoutError:
            self._end("never_connected")
            return
        while True:
            silent = self.silent
            if silent >= _SILENCE:
                self._end("peer_lost")
                return
            await asyncio.sleep(_SILENCE - silent)

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)
            self._receiver.end()
            self._set_connected(False)

    def _set_connected(self, connected: bool) -> None:
        if not self._connected.done():
            self._connected.set_result(connected)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._report)
        self._tasks.append(task)

    def _report(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """What fails on our side ends the call, aloud."""
        log.error("call failed", exc_info=error)
        self._end("failed")

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._sender.end()
        try:
            async with asyncio.timeout(_CLOSING):
                await self._connection.close()
        except TimeoutError:
            log.warning("a peer connection did not close in time")
