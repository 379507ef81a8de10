"""What we need of aiortc and aioice and they do not offer.

No other module touches a name that is private to them, and a test fails when one of these moves.

* Which addresses a call binds: aioice takes every interface except loopback, and a browser on the
  same machine without a network needs exactly that one.
* When the peer was last heard: aiortc notices a dead peer after 30 s. Only authenticated packets
  count (SRTP, SRTCP, SCTP over DTLS, and ICE checks with a valid integrity), so that a stranger who
  knows the port cannot keep a dead call alive.
* The packets of the caller's sound: aiortc's receiver holds them for 80 ms, after one loss for 280,
  and decodes them in a thread of each call.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiortc.rtcrtpreceiver import StreamStatistics

from server.transport.webrtc.reorder import Packet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiortc import RTCPeerConnection
    from aiortc.rtcrtpparameters import RTCRtpReceiveParameters
    from aiortc.rtp import RtpPacket

_STREAMS = 8
"""Streams of one track that are told apart: a sender that restarts begins another."""


def bind(connection: RTCPeerConnection, addresses: Sequence[str]) -> None:
    """Has ``connection`` gather its host candidates on ``addresses`` only; once it has media."""
    ice: Any = _dtls(connection).transport.iceGatherer._connection
    gather = ice.get_component_candidates

    def on_chosen(component: int, **found: Any) -> Any:
        return gather(component=component, addresses=list(addresses))

    ice.get_component_candidates = on_chosen


def when_heard(connection: RTCPeerConnection, heard: Callable[[], None]) -> None:
    """Calls ``heard`` for every authenticated packet of the peer; once it has media."""
    dtls: Any = _dtls(connection)
    ice: Any = dtls.transport.iceGatherer._connection
    for owner, name in (
        (dtls, "_handle_rtp_data"),
        (dtls, "_handle_rtcp_data"),
        (ice, "check_incoming"),
    ):
        setattr(owner, name, _told(getattr(owner, name), heard))
    if connection.sctp is not None:
        sctp: Any = connection.sctp
        sctp._handle_data = _told(sctp._handle_data, heard)


def take_packets(connection: RTCPeerConnection, take: Callable[[Packet], None]) -> None:
    """Has ``take`` called with the packets of the first track, which then yields nothing; before
    the connection begins.
    """
    receiver: Any = connection.getTransceivers()[0].receiver
    codecs: dict[int | None, Any] = receiver._RTCRtpReceiver__codecs
    streams: dict[int, StreamStatistics] = receiver._RTCRtpReceiver__remote_streams

    async def receive(parameters: RTCRtpReceiveParameters) -> None:
        if not receiver._RTCRtpReceiver__started:
            codecs.update({codec.payloadType: codec for codec in parameters.codecs})
            receiver.transport._register_rtp_receiver(receiver, parameters)
            receiver._RTCRtpReceiver__rtcp_task = asyncio.ensure_future(receiver._run_rtcp())
            receiver._RTCRtpReceiver__started = True

    async def handle(packet: RtpPacket, arrival_time_ms: int) -> None:
        codec = codecs.get(packet.payload_type)
        if codec is None or codec.mimeType.lower() != "audio/opus":
            return
        if packet.ssrc not in streams:
            if len(streams) == _STREAMS:
                return
            streams[packet.ssrc] = StreamStatistics(codec.clockRate)
        streams[packet.ssrc].add(packet)
        if packet.payload:
            take(Packet(packet.sequence_number, packet.timestamp, packet.payload))

    receiver.receive = receive
    receiver._handle_rtp_packet = handle


def _told(handler: Callable[..., Any], heard: Callable[[], None]) -> Callable[..., Any]:
    def handle(*args: Any, **kwargs: Any) -> Any:
        heard()
        return handler(*args, **kwargs)

    return handle


def _dtls(connection: RTCPeerConnection) -> Any:
    """The one transport of a bundled connection."""
    return connection.getTransceivers()[0].receiver.transport
