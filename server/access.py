"""Who may use the service: hosts, origins and the token. Pure checks and one thin middleware.

On loopback no token is asked for, so the browser is the danger: any web page can reach a service
on the visitor's own machine. A foreign page is told by its ``Origin``, and one that made its name
point here (DNS rebinding) by the ``Host`` it asks for. Everywhere else callers show a token, which
the operator gets as part of the first URL, as notebook servers do; the page keeps it in a cookie,
and programs send it as their API key.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from yarl import URL

from server.errors import ServiceError, bad_request
from server.settings import ServerSettings
from server.transport.addresses import is_loopback

COOKIE = "parley_token"
TOKEN_QUERY = "token"
KEY_PROTOCOL = "openai-insecure-api-key."
"""A browser cannot send headers with a WebSocket; OpenAI's clients put the key here."""

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_OPEN_PATHS = ("/health", "/ready", "/static/")
"""Neither tells anything worth a token."""
_FORWARDED = ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto")
_ALLOWED_HEADERS = re.compile(
    r"authorization|content-type|x-openai-agents-sdk|openai-[a-z-]+|x-stainless-[a-z-]+"
)

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'; object-src 'none'"
    ),
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of every response: our page runs our own files, talks to us alone, and is never framed."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Seen:
    """What matters of a request, forwarding headers already resolved.

    ``keys`` are all secrets it showed, from wherever; ``forwarded``: it came through a proxy that
    is not trusted, so that nothing is known of who sent it.
    """

    path: str
    scheme: str
    host: str
    origin: str | None
    keys: tuple[str, ...]
    forwarded: bool


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one server.

    ``token`` None asks for none (loopback only). ``hosts`` and ``origins`` are the operator's,
    besides what is local and our own; ``proxies`` are networks whose forwarding headers are
    believed.
    """

    token: str | None
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    proxies: tuple[Network, ...] = ()

    def check(self, seen: Seen) -> None:
        """Lets a request pass.

        Raises:
            ServiceError: 403 for a host or origin that is not ours, 401 for a token not shown.
        """
        self._check_origin(seen)
        if self.token is None:
            self._check_host(seen)
        elif not seen.path.startswith(_OPEN_PATHS) and not self.knows(seen.keys):
            raise ServiceError(
                401,
                "invalid_request_error",
                "unauthorized",
                "expected this server's token: as API key, or open the link printed at its start",
            )

    def knows(self, keys: Iterable[str]) -> bool:
        """Whether one of ``keys`` is the token."""
        token = (self.token or "").encode()
        return any(
            hmac.compare_digest(key.encode("utf-8", "surrogateescape"), token) for key in keys
        )

    def allows_origin(self, seen: Seen) -> bool:
        """Whether the page at ``seen.origin`` is ours, or may call by the operator's word."""
        return seen.origin in (f"{seen.scheme}://{seen.host}", *self.origins)

    def _check_origin(self, seen: Seen) -> None:
        if seen.origin is not None and not self.allows_origin(seen):
            raise _forbidden("origin_not_allowed", "Origin: not allowed; see allowed_origins")

    def _check_host(self, seen: Seen) -> None:
        if seen.forwarded:
            raise _forbidden(
                "proxy_not_trusted", "a proxy is in front of this server; see trusted_proxies"
            )
        name = host_name(seen.host)
        if name not in _LOCAL_NAMES and name not in self.hosts:
            raise _forbidden("host_not_allowed", "Host: not this server's; see allowed_hosts")


def access_of(settings: ServerSettings) -> Access:
    """The rules that ``settings`` make; a token is minted where one is needed and none was given.

    A trusted proxy brings callers from elsewhere, so there loopback needs a token too.
    """
    token = settings.token.get_secret_value() if settings.token else None
    if not token and (settings.trusted_proxies or not is_loopback(settings.host)):
        token = secrets.token_urlsafe(24)
    return Access(
        token=token or None,
        hosts=frozenset(host.lower() for host in settings.allowed_hosts),
        origins=frozenset(origin.lower().rstrip("/") for origin in settings.allowed_origins),
        proxies=tuple(ipaddress.ip_network(network) for network in settings.trusted_proxies),
    )


def host_name(host: str) -> str:
    """The name in a ``Host`` header, lower case and without its port."""
    name, _, port = host.rpartition(":")
    return (name if port.isdigit() and name else host).lower()


def forwarded(value: str) -> str:
    """What the nearest proxy wrote: the last entry, those before it may be the client's own."""
    return value.rpartition(",")[2].strip()


def shown_keys(authorization: str, protocols: str, cookie: str | None) -> tuple[str, ...]:
    """Every secret in a request's headers."""
    scheme, _, bearer = authorization.partition(" ")
    keys = [bearer.strip()] if scheme.lower() == "bearer" else []
    for protocol in protocols.split(","):
        if protocol.strip().startswith(KEY_PROTOCOL):
            keys.append(protocol.strip().removeprefix(KEY_PROTOCOL))
    return (*keys, cookie) if cookie else tuple(keys)


def allowed_headers(asked: str) -> str:
    """The request headers of a preflight that are granted: those that OpenAI's clients send."""
    names = (name.strip().lower() for name in asked.split(","))
    return ", ".join(name for name in names if _ALLOWED_HEADERS.fullmatch(name))


def see(request: web.Request, proxies: tuple[Network, ...]) -> Seen:
    """What matters of ``request``."""
    scheme, host, headers = request.scheme, request.host, request.headers
    came_through = any(name in headers for name in _FORWARDED)
    trusted = came_through and _is_in(request.remote, proxies)
    if trusted:
        scheme = forwarded(headers.get("X-Forwarded-Proto", scheme)).lower()
        host = forwarded(headers.get("X-Forwarded-Host", host))
    return Seen(
        path=request.path,
        scheme={"ws": "http", "wss": "https"}.get(scheme, scheme),
        host=host.lower(),
        origin=headers.get("Origin"),
        keys=shown_keys(
            headers.get("Authorization", ""),
            headers.get("Sec-WebSocket-Protocol", ""),
            request.cookies.get(COOKIE),
        ),
        forwarded=came_through and not trusted,
    )


def guard(access: Access) -> Middleware:
    """The middleware that applies ``access``, answers preflights and keeps the page's token."""

    @web.middleware
    async def apply(request: web.Request, handler: Handler) -> web.StreamResponse:
        seen = see(request, access.proxies)
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return _preflight(access, seen, request)
        offered = request.query.get(TOKEN_QUERY)
        if request.path == "/" and access.token and offered and access.knows([offered]):
            return _remember(request.rel_url, offered, seen.scheme == "https")
        access.check(seen)
        return await handler(request)

    return apply


def cross_origin(access: Access) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """The signal that adds security headers, and lets allowed pages read the response."""

    async def add(request: web.Request, response: web.StreamResponse) -> None:
        seen = see(request, access.proxies)
        response.headers.update(SECURITY_HEADERS)
        if seen.origin is not None and access.allows_origin(seen):
            response.headers["Access-Control-Allow-Origin"] = seen.origin
            response.headers["Access-Control-Expose-Headers"] = "Location, Retry-After"
            response.headers["Vary"] = "Origin"

    return add


def _preflight(access: Access, seen: Seen, request: web.Request) -> web.Response:
    if not access.allows_origin(seen):
        raise _forbidden("origin_not_allowed", "Origin: not allowed; see allowed_origins")
    asked = request.headers.get("Access-Control-Request-Headers", "")
    return web.Response(
        status=204,
        headers={
            "Access-Control-Allow-Methods": "GET, POST, DELETE",
            "Access-Control-Allow-Headers": allowed_headers(asked),
            "Access-Control-Max-Age": "600",
        },
    )


def _remember(url: URL, token: str, secure: bool) -> web.Response:
    """Moves the token from the address, where it would be seen and kept, into a cookie."""
    rest = url.without_query_params(TOKEN_QUERY)
    response = web.Response(status=303, headers={"Location": str(rest)})
    response.set_cookie(COOKIE, token, httponly=True, samesite="Strict", secure=secure)
    return response


def _is_in(address: str | None, networks: tuple[Network, ...]) -> bool:
    if address is None:
        return False
    parsed = ipaddress.ip_address(address)
    plain = getattr(parsed, "ipv4_mapped", None) or parsed
    return any(plain in network for network in networks)


def _forbidden(code: str, message: str) -> ServiceError:
    return bad_request(code, message, status=403)
