"""What we need of aiortc and aioice and they do not offer.

Nothing outside touches a name that is private to them, and a test fails when one of these moves.
"""

from server.transport.webrtc.stock.media import Outlet, take_packets, when_heard
from server.transport.webrtc.stock.paths import bind, share
from server.transport.webrtc.stock.sctp import RTO, bound_events

__all__ = ["RTO", "Outlet", "bind", "bound_events", "share", "take_packets", "when_heard"]
