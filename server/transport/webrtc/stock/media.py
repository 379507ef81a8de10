"""The packets of a call, both ways, and when its peer was last heard.

aiortc's receiver holds packets for 80 ms, after one loss for 280, and decodes them in a thread of
each call; and a queue, two tasks and an object of a dozen fields for each packet, both ways, cost
several times what is done with it. So sound goes from and to the socket by itself; RTCP remains
aiortc's, and what it knows no codec for, the keys of a telephone, is taken here too.

A dead peer is noticed by aiortc after 30 s. Here only authenticated packets count as heard (SRTP,
SRTCP, SCTP over DTLS, and ICE checks with a valid integrity), so that a stranger who knows the port
cannot keep a dead call alive.
"""

from __future__ import annotations

import asyncio
import time
from random import randrange
from typing import TYPE_CHECKING, Any

import pylibsrtp
from aiortc.codecs import CODECS
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from aiortc.rtcrtpparameters import RTCRtpCodecParameters
from aiortc.rtcrtpreceiver import StreamStatistics
from aiortc.rtp import RtcpRrPacket, RtcpSrPacket

from server.transport.webrtc import rtp
from server.transport.webrtc.opus import CLOCK
from server.transport.webrtc.stock.reach import dtls_of, ice_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiortc import RTCPeerConnection
    from aiortc.rtcrtpparameters import RTCRtpReceiveParameters
    from aiortc.rtp import AnyRtcpPacket

_STREAMS = 8
"""Streams of one track that are told apart: a sender that restarts begins another."""

CODECS["audio"] += [
    RTCRtpCodecParameters("audio/telephone-event", clockRate=rate, channels=1, payloadType=kind)
    for rate, kind in ((CLOCK, 110), (8_000, 126))
]


def when_heard(connection: RTCPeerConnection, heard: Callable[[], None]) -> None:
    """Calls ``heard`` for every authenticated packet of the peer but those of its sound, which
    :func:`take_packets` tells; once it has media.
    """
    for owner, name in (
        (dtls_of(connection), "_handle_rtcp_data"),
        (ice_of(connection), "check_incoming"),
    ):
        setattr(owner, name, _told(getattr(owner, name), heard))
    if connection.sctp is not None:
        sctp: Any = connection.sctp
        sctp._handle_data = _told(sctp._handle_data, heard)


def take_packets(connection: RTCPeerConnection, take: Callable[[rtp.Packet, str], None]) -> None:
    """Has ``take`` called with the authenticated packets of the first track, and the name of what
    each is coded by, as they come; the track yields nothing. Before the connection begins.
    """
    receiver: Any = connection.getTransceivers()[0].receiver
    dtls, ice = dtls_of(connection), ice_of(connection)
    streams: dict[int, Any] = receiver._RTCRtpReceiver__remote_streams
    names: dict[int | None, str] = {}
    others = ice.data_received

    async def receive(parameters: RTCRtpReceiveParameters) -> None:
        if not receiver._RTCRtpReceiver__started:
            names.update({codec.payloadType: codec.name.lower() for codec in parameters.codecs})
            receiver.transport._register_rtp_receiver(receiver, parameters)
            receiver._RTCRtpReceiver__rtcp_task = asyncio.ensure_future(receiver._run_rtcp())
            receiver._RTCRtpReceiver__started = True

    def data_received(data: bytes, component: int) -> None:
        if not rtp.is_rtp(data):
            others(data, component)
            return
        try:
            # Before there are keys nothing can be read of it.
            packet = rtp.parse(dtls._rx_srtp.unprotect(data) if dtls._rx_srtp else b"")
        except (pylibsrtp.Error, ValueError):
            return
        name = names.get(packet.payload_type)
        if name is None:
            return
        stream: Any = streams.get(packet.ssrc)
        if stream is None:
            if len(streams) == _STREAMS:
                return
            stream = streams[packet.ssrc] = StreamStatistics(CLOCK)
        stream.add(packet)
        take(packet, name)

    receiver.receive = receive
    ice.data_received = data_received


class Outlet:
    """Where the packets of a call's first track leave; made before the connection begins.

    Args:
        connection: of the call, without tracks.
        lost: told the share of packets, of 1, that the peer says it lost of the last ones.
    """

    def __init__(self, connection: RTCPeerConnection, lost: Callable[[float], None]) -> None:
        sender: Any = connection.addTrack(_Nothing())
        self._sender = sender
        (transceiver,) = connection.getTransceivers()
        self._transceiver: Any = transceiver
        self._dtls, self._ice = dtls_of(connection), ice_of(connection)
        # In the lower half, so that it does not wrap early: an SRTP receiver that lost the first
        # packets would take the wrong rollover counter (RFC 3711 section 3.3.1).
        self._sequence_number = randrange(1 << 15)
        self._origin = randrange(1 << 32)
        self._lost = lost
        self._others = sender._handle_rtcp_packet
        sender._handle_rtcp_packet = self._handle_rtcp_packet

    def send(self, payload: bytes, timestamp: int, marker: bool) -> bool:
        """Sends a packet now; False: there is no way to send it."""
        pair, srtp = self._ice._nominated.get(1), self._dtls._tx_srtp
        if pair is None or srtp is None or pair.protocol.transport.is_closing():
            return False
        sender = self._sender
        packet = rtp.Packet(
            self._sequence_number,
            (self._origin + timestamp) & 0xFFFF_FFFF,
            payload,
            self._transceiver._codecs[0].payloadType,
            sender._ssrc,
            marker,
        )
        pair.protocol.transport.sendto(srtp.protect(rtp.serialize(packet)), pair.remote_addr)
        self._sequence_number = (self._sequence_number + 1) & 0xFFFF
        # What aiortc's sender reports are made of.
        sender._RTCRtpSender__ntp_timestamp = rtp.ntp(time.time())
        sender._RTCRtpSender__rtp_timestamp = packet.timestamp
        sender._RTCRtpSender__octet_count += len(payload)
        sender._RTCRtpSender__packet_count += 1
        return True

    async def _handle_rtcp_packet(self, packet: AnyRtcpPacket) -> None:
        if isinstance(packet, RtcpRrPacket | RtcpSrPacket):
            for report in packet.reports:
                if report.ssrc == self._sender._ssrc:
                    self._lost(report.fraction_lost / 256)
        await self._others(packet)


class _Nothing(MediaStreamTrack):
    """The track that stands in the answer: its packets leave by themselves."""

    kind = "audio"

    async def recv(self) -> Any:
        """Nothing, until the call ends and this is cancelled."""
        await asyncio.get_running_loop().create_future()
        raise MediaStreamError


def _told(handler: Callable[..., Any], heard: Callable[[], None]) -> Callable[..., Any]:
    def handle(*args: Any, **kwargs: Any) -> Any:
        heard()
        return handler(*args, **kwargs)

    return handle
