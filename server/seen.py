"""What a request shows of itself: the one reader of its headers, for every route. Pure.

Keys come in every place that some client puts them: ``Authorization``, as ``Bearer`` or bare;
``X-Api-Key``; Azure's ``api-key``; a WebSocket's subprotocol, since a browser can send no headers
with one; and our page's cookie. Forwarding headers are believed from trusted proxies alone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from server.transport.addresses import is_loopback

if TYPE_CHECKING:
    from aiohttp import web
    from multidict import CIMultiDictProxy

COOKIE = "parley_token"
KEY_PROTOCOL = "openai-insecure-api-key."
"""What OpenAI's clients put before the key in a subprotocol."""

_FORWARDED = (
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
)
"""Any of them tells that a proxy was in between."""
_IPV6_HOME = 64
"""Bits of an IPv6 address that tell one customer from another (RFC 6177)."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Seen:
    """What matters of a request, forwarding headers already resolved.

    Args:
        route: the path as the application declares it (``/v1/models/{model}``); empty for none.
        scheme: ``http`` or ``https``, for sockets too.
        host: as it was asked for, lower case.
        origin: of the page that asks, or None.
        keys: all secrets that were shown, from wherever.
        address: of the sender, see :func:`client_address`; empty for this machine itself.
        forwarded: it came through a proxy that is not trusted, so that nothing is known of who
            sent it.
    """

    route: str
    scheme: str
    host: str
    origin: str | None
    keys: tuple[str, ...]
    address: str
    forwarded: bool


def see(request: web.Request, proxies: tuple[Network, ...]) -> Seen:
    """What matters of ``request``; ``proxies`` are trusted."""
    scheme, host, headers = request.scheme, request.host, request.headers
    came_through = any(name in headers for name in _FORWARDED)
    trusted = came_through and _is_in(_parsed(request.remote or ""), proxies)
    sender = request.remote or ""
    if trusted:
        scheme = forwarded(headers.get("X-Forwarded-Proto", scheme)).lower()
        host = forwarded(headers.get("X-Forwarded-Host", host))
        sender = sender_of(sender, ",".join(headers.getall("X-Forwarded-For", ())), proxies)
    resource = request.match_info.route.resource
    return Seen(
        route=resource.canonical if resource else "",
        scheme={"ws": "http", "wss": "https"}.get(scheme, scheme),
        host=host.lower(),
        origin=headers.get("Origin"),
        keys=shown_keys(headers, request.cookies),
        address="" if not came_through and is_loopback(sender) else client_address(sender),
        forwarded=came_through and not trusted,
    )


def shown_keys(headers: CIMultiDictProxy[str], cookies: Mapping[str, str]) -> tuple[str, ...]:
    """Every secret in a request's headers, each once."""
    keys = [_bearer(value) for value in headers.getall("Authorization", ())]
    for name in ("X-Api-Key", "Api-Key"):
        keys += headers.getall(name, ())
    for protocol in ",".join(headers.getall("Sec-WebSocket-Protocol", ())).split(","):
        if protocol.strip().startswith(KEY_PROTOCOL):
            keys.append(protocol.strip().removeprefix(KEY_PROTOCOL))
    keys.append(cookies.get(COOKIE, ""))
    return tuple(dict.fromkeys(key.strip() for key in keys if key.strip()))


def _bearer(authorization: str) -> str:
    """The key of ``Bearer KEY``, or of a bare one; other schemes bring none."""
    scheme, _, rest = authorization.strip().partition(" ")
    if rest:
        return rest if scheme.lower() == "bearer" else ""
    return scheme


def host_name(host: str) -> str:
    """The name in a ``Host`` header, lower case and without its port."""
    name, _, port = host.rpartition(":")
    return (name if port.isdigit() and name else host).lower()


def forwarded(value: str) -> str:
    """What the nearest proxy wrote: the last entry, those before it may be the client's own."""
    return value.rpartition(",")[2].strip()


def sender_of(remote: str, forwarded_for: str, proxies: tuple[Network, ...]) -> str:
    """Who sent a request that came through trusted proxies: the last address that is none of them.

    Whoever wrote what stands before it is not known. Without such an address it is the proxy.
    """
    for entry in reversed(forwarded_for.split(",")):
        address = _parsed(entry)
        if address is None:
            break
        if not _is_in(address, proxies):
            return str(address)
    return remote


def client_address(sender: str) -> str:
    """``sender`` as far as it tells callers apart: an IPv6 customer has a whole network."""
    address = _parsed(sender)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, _IPV6_HOME), strict=False))
    return str(address or sender)


def _parsed(text: str) -> Address | None:
    """The address in ``text``, which may carry a port and brackets."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_in(address: Address | None, networks: Iterable[Network]) -> bool:
    return address is not None and any(address in network for network in networks)
