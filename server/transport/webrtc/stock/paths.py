"""Which sockets a call uses, and where its peer is.

aioice opens a socket on every interface for each call, except on loopback, which a browser on the
same machine without a network needs; ours share one port. And aioice sends to the address that the
caller chose, though a NAT may have given it another since, of which the caller knows nothing.
"""

from __future__ import annotations

import secrets
import struct
from typing import TYPE_CHECKING, Any

from aioice import Candidate, stun
from aioice.candidate import candidate_foundation, candidate_priority
from aioice.ice import StunProtocol

from server.transport.webrtc.stock.reach import ice_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiortc import RTCPeerConnection

    from server.transport.webrtc.port import MediaPort

_ADDRESSES = 64
"""Addresses that one caller's checks may come from; the first ones are forgotten."""
_LAST_STUN = 3
"""The first byte of a STUN message, at most (RFC 7983 section 7)."""


def bind(connection: RTCPeerConnection, addresses: Sequence[str]) -> None:
    """Has ``connection`` gather its host candidates on ``addresses`` only; once it has media."""
    ice = ice_of(connection)
    gather = ice.get_component_candidates

    def on_chosen(component: int, **found: Any) -> Any:
        return gather(component=component, addresses=list(addresses))

    ice.get_component_candidates = on_chosen


def share(connection: RTCPeerConnection, port: MediaPort) -> None:
    """Has ``connection`` use ``port`` and no socket of its own; once it has media, and before it
    describes itself.
    """
    ice = ice_of(connection)
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
            protocol.datagram_received = _sorted(ice, protocol.datagram_received, component)
            protocol.connection_made(shared.lane(ice.local_username, proves, protocol))
            protocol.local_candidate = _host(component, shared.address, shared.number)
            ice._protocols.append(protocol)
        return [_host(component, *told) for told in port.told]

    ice.get_component_candidates = gather
    ice.check_incoming = _following(ice)


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


def _sorted(
    ice: Any, take_check: Callable[[bytes, tuple[str, int]], None], component: int
) -> Callable[[bytes, tuple[str, int]], None]:
    """Takes datagrams, told apart by their first byte (RFC 7983): aioice reads each as a check, and
    has an exception tell of what is none, which is all but one of some hundreds.
    """

    def datagram_received(data: bytes, addr: tuple[str, int]) -> None:
        if data and data[0] > _LAST_STUN:
            ice.data_received(data, component)
        else:
            take_check(data, addr)

    return datagram_received


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
