"""Whose datagram it is, where one socket serves every call. Pure.

A call is recognised by the user name fragment of its ICE checks (RFC 8445 section 7.2.2), which
nobody else was told, and from then on by the address that they come from. An address belongs to a
call only once a check from there has proved itself (MESSAGE-INTEGRITY), so nobody can turn
another's packets away; and a check that proves itself from another address is the call's from there
as well, as happens when a NAT forgets its mapping or a telephone changes its network.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from server.transport.webrtc.binding import Address, is_request, ufrag_of

ADDRESSES = 32
"""Addresses that a call is known by at once; the one unused the longest is forgotten."""


class Party(Protocol):
    """A call, as far as a socket knows it."""

    def proves(self, check: bytes) -> bool:
        """Whether a binding request was made with the call's password."""


P = TypeVar("P", bound=Party)


class Routes(Generic[P]):
    """The calls of one socket."""

    def __init__(self) -> None:
        self._by_ufrag: dict[str, P] = {}
        self._by_address: dict[Address, P] = {}
        self._addresses: dict[P, dict[Address, None]] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, ufrag: str, party: P) -> None:
        """From now on checks for ``ufrag`` are for ``party``."""
        self._by_ufrag[ufrag] = party
        self._addresses[party] = {}

    def remove(self, ufrag: str) -> None:
        """Forgets all of the call, if it is there."""
        party = self._by_ufrag.pop(ufrag, None)
        if party is not None:
            for address in self._addresses.pop(party):
                del self._by_address[address]

    def find(self, datagram: bytes, source: Address) -> P | None:
        """Whom a datagram from ``source`` is for; None: nobody."""
        if is_request(datagram):
            return self._asked(datagram, source)
        return self._by_address.get(source)

    def claim(self, address: Address, party: P) -> None:
        """``party`` sends to ``address``: an answer from there is its own, unless another has
        proved that it is there.
        """
        if address not in self._by_address and party in self._addresses:
            self._take(address, party)

    def _asked(self, check: bytes, source: Address) -> P | None:
        party = self._by_ufrag.get(ufrag_of(check))
        if party is None:
            return None
        known = self._by_address.get(source)
        if known is not party:
            if not party.proves(check):
                return None
            if known is not None:
                del self._addresses[known][source]
        self._take(source, party)
        return party

    def _take(self, address: Address, party: P) -> None:
        own = self._addresses[party]
        own.pop(address, None)
        own[address] = None
        self._by_address[address] = party
        if len(own) > ADDRESSES:
            oldest = next(iter(own))
            del own[oldest], self._by_address[oldest]
