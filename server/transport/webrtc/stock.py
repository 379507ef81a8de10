"""What we need of aiortc and aioice and they do not offer.

No other module touches a name that is private to them, and a test fails when one of these moves.

* Which addresses a call binds: aioice takes every interface except loopback, and a browser on the
  same machine without a network needs exactly that one.
* When the peer was last heard: aiortc notices a dead peer after 30 s. Only authenticated packets
  count (SRTP, SRTCP, SCTP over DTLS, and ICE checks with a valid integrity), so that a stranger who
  knows the port cannot keep a dead call alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiortc import RTCPeerConnection


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


def _told(handler: Callable[..., Any], heard: Callable[[], None]) -> Callable[..., Any]:
    def handle(*args: Any, **kwargs: Any) -> Any:
        heard()
        return handler(*args, **kwargs)

    return handle


def _dtls(connection: RTCPeerConnection) -> Any:
    """The one transport of a bundled connection."""
    return connection.getTransceivers()[0].receiver.transport
