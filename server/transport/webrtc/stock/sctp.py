"""How events are received: what waits for others is bounded, and what was lost is missed soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiortc import rtcsctptransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiortc import RTCPeerConnection

RTO = 0.4
"""Seconds after which an event that was not acknowledged is sent again, where RFC 9260 (section
16) has 1, and 3 at first, for the networks of its time. Browsers acknowledge within 0.2 s, and
Chromium's own stack waits as long as this."""

CHUNKS = 1_024
"""Chunks that may wait for others. All that a sender may send unacknowledged comes to 900 packets
of a browser's, and each chunk is compared with all that wait."""
STREAMS = 16
"""Streams that are told apart; each is a data channel."""

_sctp: Any = rtcsctptransport
_sctp.SCTP_RTO_MIN = _sctp.SCTP_RTO_INITIAL = RTO


def bound_events(connection: RTCPeerConnection, exceeded: Callable[[], None]) -> None:
    """Calls ``exceeded`` instead of holding more than the bounds, which aiortc does, whatever
    window it tells the peer; once it has media.
    """
    if connection.sctp is None:
        return
    sctp: Any = connection.sctp
    receive = sctp._receive_data_chunk

    async def receive_data_chunk(chunk: Any) -> None:
        streams = sctp._inbound_streams
        unfinished = sum(len(stream.reassembly) for stream in streams.values())
        waiting = max(unfinished, len(sctp._sack_misordered))
        if len(streams) > STREAMS or waiting > CHUNKS or sctp._advertised_rwnd < 0:
            exceeded()
        else:
            await receive(chunk)

    sctp._receive_data_chunk = receive_data_chunk
