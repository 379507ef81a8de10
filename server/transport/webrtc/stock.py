"""What we need of aiortc and aioice and they do not offer.

No other module touches a name that is private to them, and a test fails when one of these moves.

* Which sockets a call uses: aioice opens one on every interface for each, except loopback, which a
  browser on the same machine without a network needs. Ours share one port.
* Where a caller is who moved: aioice sends to the address that the caller chose, though a NAT may
  have given it another since, of which the caller knows nothing.
* When the peer was last heard: aiortc notices a dead peer after 30 s. Only authenticated packets
  count (SRTP, SRTCP, SCTP over DTLS, and ICE checks with a valid integrity), so that a stranger who
  knows the port cannot keep a dead call alive.
* The packets of the caller's sound: aiortc's receiver holds them for 80 ms, after one loss for 280,
  and decodes them in a thread of each call.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from typing import TYPE_CHECKING, Any

from aioice import Candidate, stun
from aioice.candidate import candidate_foundation, candidate_priority
from aioice.ice import StunProtocol
from aiortc.rtcrtpreceiver import StreamStatistics

from server.transport.webrtc.reorder import Packet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiortc import RTCPeerConnection
    from aiortc.rtcrtpparameters import RTCRtpReceiveParameters
    from aiortc.rtp import RtpPacket

    from server.transport.webrtc.port import MediaPort

_ADDRESSES = 64
"""Addresses that one caller's checks may come from; the first ones are forgotten."""
_STREAMS = 8
"""Streams of one track that are told apart: a sender that restarts begins another."""


def bind(connection: RTCPeerConnection, addresses: Sequence[str]) -> None:
    """Has ``connection`` gather its host candidates on ``addresses`` only; once it has media."""
    ice: Any = _dtls(connection).transport.iceGatherer._connection
    gather = ice.get_component_candidates

    def on_chosen(component: int, **found: Any) -> Any:
        return gather(component=component, addresses=list(addresses))

    ice.get_component_candidates = on_chosen


def share(connection: RTCPeerConnection, port: MediaPort) -> None:
    """Has ``connection`` use ``port`` and no socket of its own; once it has media, and before it
    describes itself.
    """
    ice: Any = _dtls(connection).transport.iceGatherer._connection
    ice._local_username = secrets.token_hex(8)  # longer than aioice's: it tells the calls apart
    password = ice.local_password.encode()

    def proves(check: bytes) -> bool:
        try:
            return stun.parse_message(check).check_message_integrity(password)
        except (ValueError, struct.error):
            return False

    async def gather(component: int, **_: Any) -> list[Candidate]:
        for shared in port.sockets:
            protocol: Any = StunProtocol(ice)
            protocol.connection_made(shared.lane(ice.local_username, proves, protocol))
            protocol.local_candidate = _host(component, shared.address, shared.number)
            ice._protocols.append(protocol)
        return [_host(component, *told) for told in port.told]

    ice.get_component_candidates = gather
    ice.check_incoming = _following(ice)


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


def _host(component: int, address: str, port: int) -> Candidate:
    return Candidate(
        foundation=candidate_foundation("host", "udp", address),
        component=component,
        transport="udp",
        priority=candidate_priority(component, "host"),
        host=address,
        port=port,
        type="host",
    )


def _following(ice: Any) -> Callable[[Any, tuple[str, int], Any], None]:
    """Checks of a caller, taken so that our sound follows it.

    A connected caller checks no new addresses, so one that is new then is its old one as a NAT
    shows it now. Were it another path after all, the caller's next check of the one it chose
    chooses that again.
    """
    check = ice.check_incoming

    def on_check(message: Any, addr: tuple[str, int], protocol: Any) -> None:
        known = {(c._network_host, c.port) for c in ice._remote_candidates}
        if addr not in known:
            _forget_oldest(ice)
            if ice._nominated:
                message.attributes["USE-CANDIDATE"] = None
        check(message, addr, protocol)

    return on_check


def _forget_oldest(ice: Any) -> None:
    """Keeps what aioice knows of a caller who moves again and again bounded."""
    nominated = {id(pair.remote_candidate) for pair in ice._nominated.values()}
    idle = [c for c in ice._remote_candidates if id(c) not in nominated]
    for candidate in idle[: max(0, len(ice._remote_candidates) - _ADDRESSES + 1)]:
        ice._remote_candidates.remove(candidate)
        for pair in [p for p in ice._check_list if p.remote_candidate is candidate]:
            if pair.task is not None:
                pair.task.cancel()
            ice._check_list.remove(pair)


def _told(handler: Callable[..., Any], heard: Callable[[], None]) -> Callable[..., Any]:
    def handle(*args: Any, **kwargs: Any) -> Any:
        heard()
        return handler(*args, **kwargs)

    return handle


def _dtls(connection: RTCPeerConnection) -> Any:
    """The one transport of a bundled connection."""
    return connection.getTransceivers()[0].receiver.transport
