"""Which local addresses a call may use. Pure, but for listing the interfaces.

Only what the operator's ``host`` stands for is offered. A service on loopback also offers the
machine's own addresses: a browser beside it may refuse to send from one of them to loopback, and
the packets never leave the machine. Addresses of container bridges are not offered, since they make
callers try what can never connect.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

import ifaddr

_MOST = 8
_BRIDGES = ("docker", "veth", "br-", "virbr", "cni", "flannel", "cali", "lxc")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host`` (an address, or ``localhost``)."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def media_addresses(
    host: str, chosen: Sequence[str], machine: Iterable[tuple[str, str]]
) -> list[str]:
    """Addresses to offer, the most specific first.

    Args:
        host: the address that HTTP listens on.
        chosen: the operator's list; where there is one, it is used as it stands.
        machine: (interface, address) pairs.
    """
    if chosen:
        return list(chosen)
    everywhere = host in ("", "0.0.0.0", "::")
    if not everywhere and not is_loopback(host):
        return [host]
    outside = [
        address
        for interface, address in machine
        if not interface.startswith(_BRIDGES) and not _is_local(address)
    ]
    return ["127.0.0.1", *outside[: _MOST - 1]]


def machine_addresses() -> list[tuple[str, str]]:
    """(interface, address) of every address this machine has; no scoped IPv6 ones."""
    found: list[tuple[str, str]] = []
    for adapter in ifaddr.get_adapters():
        for ip in adapter.ips:
            if isinstance(ip.ip, str):
                found.append((adapter.name, ip.ip))
            elif ip.ip[2] == 0:
                found.append((adapter.name, ip.ip[0]))
    return found


def _is_local(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    return parsed.is_loopback or parsed.is_link_local
