"""STUN binding requests (RFC 8489), as far as a socket must know them before it knows a call. Pure.

The ICE agent reads its checks itself; what is done here is done for every stranger's datagram, so
it is no more than a look at the bytes.
"""

from __future__ import annotations

import ipaddress
import struct

Address = tuple[str, int]

_REQUEST = b"\x00\x01"
_RESPONSE = 0x0101
_COOKIE = 0x2112A442
_HEADER = 20
_USERNAME = 0x0006
_XOR_MAPPED_ADDRESS = 0x0020


def is_request(datagram: bytes) -> bool:
    """Whether it begins as a binding request does; nothing else on a port of ICE's does."""
    return datagram[:2] == _REQUEST


def ufrag_of(request: bytes) -> str:
    """The user name fragment of whom a request is for; empty where it names nobody."""
    at = _HEADER
    while at + 4 <= len(request):
        kind, length = struct.unpack_from("!HH", request, at)
        at += 4
        if kind == _USERNAME:
            return request[at : at + length].partition(b":")[0].decode("ascii", "replace")
        at += length + -length % 4
    return ""


def reflection(datagram: bytes, source: Address) -> bytes | None:
    """The answer to who asks for nothing but its own address, as a STUN server gives it; None
    where it is no such request.
    """
    if not is_request(datagram) or len(datagram) < _HEADER or ufrag_of(datagram):
        return None
    length, cookie = struct.unpack_from("!HI", datagram, 2)
    if cookie != _COOKIE or length != len(datagram) - _HEADER:
        return None
    transaction = datagram[4:_HEADER]
    address = ipaddress.ip_address(source[0]).packed
    family = 1 if len(address) == 4 else 2
    masked = bytes(a ^ b for a, b in zip(address, transaction, strict=False))
    port = source[1] ^ _COOKIE >> 16
    value = struct.pack("!BBH", 0, family, port) + masked
    attribute = struct.pack("!HH", _XOR_MAPPED_ADDRESS, len(value)) + value
    return struct.pack("!HH", _RESPONSE, len(attribute)) + transaction + attribute
