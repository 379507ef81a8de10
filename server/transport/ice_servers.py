"""``GET /v1/ice-servers``: the STUN and TURN servers that callers may use, and their logins.

What is answered can be given to ``new RTCPeerConnection`` as it stands. Logins of a TURN server
that shares a secret with us are made as draft-uberti-behave-turn-rest has it, and coturn takes
them: the user name says when it expires, and the password is its signature.
"""

from __future__ import annotations

import base64
import hmac
import time
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.webrtc_settings import IceServer

_LASTING = 3600
"""Seconds after which asking again makes sense, where no login expires."""


class IceServers:
    """Tells callers the ICE servers."""

    def __init__(self, servers: Sequence[IceServer]) -> None:
        self._servers = servers

    async def answer(self, request: web.Request) -> web.Response:
        """An ``RTCConfiguration``, and for how many seconds it holds."""
        lifetimes = [server.lifetime for server in self._servers if _signs(server)]
        body = {
            "iceServers": rtc_ice_servers(self._servers, time.time()),
            "ttl": min(lifetimes, default=_LASTING),
        }
        return web.json_response(body, headers={"Cache-Control": "no-store"})


def rtc_ice_servers(servers: Sequence[IceServer], now: float) -> list[dict[str, Any]]:
    """The servers as ``RTCIceServer`` objects, with logins made at unix time ``now``."""
    return [{"urls": list(server.urls)} | _login(server, now) for server in servers]


def _login(server: IceServer, now: float) -> dict[str, str]:
    if _signs(server):
        username = f"{int(now) + server.lifetime}:parley"
        secret = server.secret.get_secret_value().encode()
        signature = hmac.digest(secret, username.encode(), "sha1")
        return {"username": username, "credential": base64.b64encode(signature).decode()}
    if server.username:
        return {"username": server.username, "credential": server.credential.get_secret_value()}
    return {}


def _signs(server: IceServer) -> bool:
    return bool(server.secret.get_secret_value())
