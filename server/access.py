"""Who may use the service: hosts, origins and keys. Pure checks and one thin middleware.

On loopback no key is asked for until one was made, so the browser is the danger: any web page can
reach a service on the visitor's own machine. A foreign page is told by its ``Origin``, on sockets
and posts alike (CORS covers neither), and one that made its name point here (DNS rebinding) by the
``Host`` it asks for.

Everywhere else callers show an API key, a client secret made with one, or the server's token. The
token is part of the first URL that the operator gets, as notebook servers do it; the page keeps it
in a cookie. Whoever was given a key instead opens the page by the same link.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import time
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from yarl import URL

from server import client_secrets
from server.caller import TOKEN, Caller
from server.client_secrets import ClientSecrets
from server.cors import preflight
from server.errors import ServiceError, bad_request
from server.keys import Keys, keys_path
from server.seen import COOKIE, Network, Seen, host_name, see
from server.settings import ServerSettings
from server.transport.addresses import is_loopback

TOKEN_QUERY = "token"
CALLER = web.RequestKey("caller", Caller)
"""Where a request's handler finds who asks."""

OPEN = frozenset({"/health", "/ready", "/openapi.json", "/static"})
"""Routes that tell nothing worth a key."""
OPEN_HERE = frozenset({"/metrics"})
"""Routes that ask programs on this machine itself for none."""
NOT_FOR_SECRETS = frozenset({"/metrics", "/v1/realtime/client_secrets"})
"""Routes that a client secret does not open: it may start sessions, and no more."""

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one server.

    ``token`` None: there is none (only on loopback). ``hosts`` and ``origins`` are the operator's,
    besides what is local and our own; ``proxies`` are networks whose forwarding headers are
    believed.
    """

    token: str | None
    keys: Keys
    secrets: ClientSecrets = field(default_factory=ClientSecrets)
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    proxies: tuple[Network, ...] = ()

    @property
    def locked(self) -> bool:
        """Whether callers have to show a key."""
        return self.token is not None or self.keys.required

    def check(self, seen: Seen, now: float) -> Caller:
        """Lets a request pass, at unix time ``now``, and says whose it is.

        Raises:
            ServiceError: 403 for a host, an origin or a use that is not allowed, 401 where a key
                was needed and none that is known was shown.
        """
        self._check_origin(seen)
        here = seen.route in OPEN_HERE and not seen.address and not seen.forwarded
        caller = self._known(seen, now)
        if not self.locked or (here and caller is None):
            self._check_host(seen)
        elif caller is None and seen.route not in OPEN:
            raise _unauthorized("expected an API key, or the page's link with the server's token")
        caller = caller or Caller(address=seen.address)
        if caller.secret is not None and seen.route in NOT_FOR_SECRETS:
            message = "expected an API key, got a client secret: it starts sessions and no more"
            raise _forbidden("client_secret_not_allowed", message)
        return caller

    def knows(self, shown: str) -> str | None:
        """Whose ``shown`` is: the id of the API key, or :data:`TOKEN`; None: nobody's."""
        if self.token is not None and hmac.compare_digest(_bytes(shown), _bytes(self.token)):
            return TOKEN
        key = self.keys.find(shown)
        return key.id if key else None

    def allows_origin(self, seen: Seen) -> bool:
        """Whether the page at ``seen.origin`` is ours, or may call by the operator's word."""
        return seen.origin in (f"{seen.scheme}://{seen.host}", *self.origins)

    def _known(self, seen: Seen, now: float) -> Caller | None:
        """Who showed a key that is known."""
        for shown in seen.keys:
            if key := self.knows(shown):
                return Caller(key, seen.address)
            secret = self.secrets.find(shown, now)
            if secret and self._stands(secret.owner):
                return Caller(secret.owner, seen.address, secret)
        if any(shown.startswith(client_secrets.PREFIX) for shown in seen.keys):
            # Even where no key is needed: the session that it stands for would be another one.
            raise _unauthorized("this client secret is not known, or has expired")
        return None

    def _stands(self, owner: str) -> bool:
        """Whether what ``owner`` made still holds; nobody's does until the first key is made."""
        return owner == TOKEN or self.keys.has(owner) if owner else not self.locked

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

    Raises:
        KeysProblem: there are keys and they cannot be read.
    """
    keys = Keys(keys_path(settings.keys_file))
    token = settings.token.get_secret_value() if settings.token else None
    needed = settings.trusted_proxies or not is_loopback(settings.host) or keys.required
    if not token and needed:
        token = secrets.token_urlsafe(24)
    return Access(
        token=token or None,
        keys=keys,
        hosts=frozenset(host.lower() for host in settings.allowed_hosts),
        origins=frozenset(origin.lower().rstrip("/") for origin in settings.allowed_origins),
        proxies=tuple(ipaddress.ip_network(network) for network in settings.trusted_proxies),
    )


def guard(access: Access) -> Middleware:
    """The middleware that applies ``access``, answers preflights and keeps the page's token."""

    @web.middleware
    async def apply(request: web.Request, handler: Handler) -> web.StreamResponse:
        seen = see(request, access.proxies)
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            if not access.allows_origin(seen):
                raise _forbidden("origin_not_allowed", "Origin: not allowed; see allowed_origins")
            return preflight(request)
        offered = request.query.get(TOKEN_QUERY)
        if request.path == "/" and offered and access.locked and access.knows(offered):
            return _remember(request.rel_url, offered, seen.scheme == "https")
        request[CALLER] = access.check(seen, time.time())
        return await handler(request)

    return apply


def _remember(url: URL, token: str, secure: bool) -> web.Response:
    """Moves the token from the address, where it would be seen and kept, into a cookie."""
    rest = url.without_query_params(TOKEN_QUERY)
    response = web.Response(status=303, headers={"Location": str(rest)})
    response.set_cookie(COOKIE, token, httponly=True, samesite="Strict", secure=secure)
    return response


def _bytes(secret: str) -> bytes:
    return secret.encode("utf-8", "surrogateescape")


def _forbidden(code: str, message: str) -> ServiceError:
    return bad_request(code, message, status=403)


def _unauthorized(message: str) -> ServiceError:
    return ServiceError(401, "invalid_request_error", "unauthorized", message)
