"""Which local addresses a call may use, and which ones callers are told. Pure, but for asking the
system for interfaces and names.

Only what the operator's ``host`` stands for is offered. A service on loopback also offers the
machine's own addresses: a browser beside it may refuse to send from one of them to loopback, and
the packets never leave the machine. Addresses of container bridges are not offered, since they make
callers try what can never connect.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

import ifaddr

_MOST = 8
_BRIDGES = ("docker", "veth", "br-", "virbr", "cni", "flannel", "cali", "lxc")

Endpoint = tuple[str, int | None]
"""An address or name, and a port where one is said."""


class AddressProblem(Exception):
    """An address or port for media cannot be had; the message names the setting."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host`` (an address, or ``localhost``)."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def media_addresses(
    host: str, chosen: Sequence[str], machine: Sequence[tuple[str, str]]
) -> list[str]:
    """Addresses to offer, the most specific first.

    Args:
        host: the address that HTTP listens on; a name stands for all.
        chosen: the operator's list of addresses and interfaces; where there is one, it counts.
        machine: (interface, address) pairs.
    """
    if chosen:
        return list(dict.fromkeys(a for name in chosen for a in _addresses(name, machine)))
    if _is_one(host):
        return [host]
    outside = [
        address
        for interface, address in machine
        if not interface.startswith(_BRIDGES) and not _is_local(address)
    ]
    return ["127.0.0.1", *outside[: _MOST - 1]]


def check_chosen(chosen: Sequence[str], machine: Sequence[tuple[str, str]]) -> None:
    """Whether the machine has what the operator chose.

    Raises:
        AddressProblem: it has no such address or interface.
    """
    known = {address for _, address in machine}
    for name in chosen:
        if not any(a in known or is_loopback(a) for a in _addresses(name, machine)):
            names = ", ".join(dict.fromkeys(interface for interface, _ in machine))
            message = f"this machine has no address or interface {name}; interfaces: {names}"
            raise AddressProblem(f"webrtc.addresses: {message}")


def endpoint(text: str) -> Endpoint:
    """The parts of ``HOST``, ``HOST:PORT``, ``[IPv6]:PORT`` or a bare IPv6 address.

    Raises:
        ValueError: it is none of these.
    """
    bare = text.count(":") > 1 and not text.startswith("[")
    try:
        parts = urlsplit(f"//[{text}]" if bare else f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or "@" in text or parts.path or parts.query or port == 0:
        raise ValueError(f"expected an address or a name, perhaps with :PORT, got {text}")
    return host, port


async def resolve(names: Iterable[str], setting: str) -> list[Endpoint]:
    """The addresses that ``names`` (endpoints as text) stand for.

    Raises:
        AddressProblem: one of them stands for none.
    """
    found: list[Endpoint] = []
    for host, port in map(endpoint, names):
        loop = asyncio.get_running_loop()
        try:
            infos = await loop.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
        except OSError as problem:
            raise AddressProblem(f"{setting}: cannot find {host}: {problem.strerror}") from None
        found += [(str(address[0]), port) for *_, address in infos]
    return list(dict.fromkeys(found))


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


def _is_one(host: str) -> bool:
    """Whether ``host`` is one address, and not loopback's."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return not (address.is_unspecified or address.is_loopback)


def _is_local(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    return parsed.is_loopback or parsed.is_link_local


def _addresses(name: str, machine: Iterable[tuple[str, str]]) -> list[str]:
    """What ``name`` stands for: itself, or the addresses of the interface of that name."""
    try:
        return [str(ipaddress.ip_address(name))]
    except ValueError:
        own = (address for interface, address in machine if interface == name)
        return [address for address in own if not ipaddress.ip_address(address).is_link_local]
