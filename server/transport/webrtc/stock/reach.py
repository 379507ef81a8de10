"""Where in a connection its transports are: there is one of each, since all is bundled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiortc import RTCPeerConnection


def dtls_of(connection: RTCPeerConnection) -> Any:
    """The ``RTCDtlsTransport`` of a connection that has media."""
    return connection.getTransceivers()[0].receiver.transport


def ice_of(connection: RTCPeerConnection) -> Any:
    """Its ``aioice.Connection``."""
    return dtls_of(connection).transport.iceGatherer._connection
