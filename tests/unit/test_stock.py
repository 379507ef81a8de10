"""The private names that we build on are where they were: a new aiortc is not taken unseen."""

from __future__ import annotations

import inspect

from aioice import Candidate
from aioice.ice import CandidatePair, Connection, StunProtocol
from aiortc import RTCConfiguration, RTCPeerConnection, rtcsctptransport
from aiortc.rtcdtlstransport import RTCDtlsTransport
from aiortc.rtcrtpreceiver import RTCRtpReceiver, StreamStatistics
from aiortc.rtcrtpsender import RTCRtpSender
from aiortc.rtcsctptransport import RTCSctpTransport

from server.transport.webrtc import stock


async def test_methods_that_are_replaced_are_called_by_that_name() -> None:
    for owner, name, caller in (
        (Connection, "get_component_candidates", Connection.gather_candidates),
        (Connection, "local_password", None),
        (StunProtocol, "connection_lost", None),
        (StunProtocol, "datagram_received", None),
        (Connection, "check_incoming", Connection.request_received),
        (Connection, "data_received", StunProtocol.datagram_received),
        (RTCDtlsTransport, "_handle_rtcp_data", RTCDtlsTransport._recv_next),
        (RTCRtpReceiver, "receive", None),
        (RTCRtpSender, "_handle_rtcp_packet", RTCDtlsTransport._handle_rtcp_data),
        (RTCSctpTransport, "_handle_data", RTCDtlsTransport._recv_next),
        (RTCSctpTransport, "_receive_data_chunk", RTCSctpTransport._receive_chunk),
    ):
        assert hasattr(owner, name), name
        if caller is not None:
            assert f".{name}(" in inspect.getsource(caller), name


async def test_what_is_read_and_written_is_there() -> None:
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connection.createDataChannel("events")
    stock.Outlet(connection, print)
    (transceiver,) = connection.getTransceivers()
    dtls = transceiver.receiver.transport
    ice = dtls.transport.iceGatherer._connection
    for owner, names in (
        (transceiver, ("_codecs",)),
        (dtls, ("_rx_srtp", "_tx_srtp", "_register_rtp_receiver")),
        (dtls.transport.iceGatherer, ("_connection",)),
        (ice, ("_local_username", "_protocols", "_nominated", "_check_list")),
        (ice, ("_remote_candidates",)),
        (Candidate("f", 1, "udp", 1, "127.0.0.1", 1, "host"), ("_network_host",)),
        (transceiver.sender, ("_ssrc", *mangled("RTCRtpSender", "ntp_timestamp"))),
        (transceiver.sender, mangled("RTCRtpSender", "rtp_timestamp", "octet_count")),
        (transceiver.sender, mangled("RTCRtpSender", "packet_count")),
        (transceiver.receiver, mangled("RTCRtpReceiver", "started", "remote_streams")),
        (transceiver.receiver, ("_run_rtcp", "_RTCRtpReceiver__rtcp_task")),
        (StreamStatistics, ("add",)),
        (CandidatePair, ("remote_addr",)),
    ):
        for name in names:
            assert hasattr(owner, name), name
    await connection.close()


async def test_a_lost_event_is_sent_again_sooner_than_by_default() -> None:
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connection.createDataChannel("events")
    sctp = connection.sctp
    assert sctp is not None
    sctp._update_rto(0.001)
    assert sctp._rto == stock.RTO
    assert rtcsctptransport.SCTP_RTO_INITIAL == stock.RTO
    await connection.close()


def mangled(owner: str, *names: str) -> tuple[str, ...]:
    return tuple(f"_{owner}__{name}" for name in names)
