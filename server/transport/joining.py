"""Sockets that join a session which runs: its caller's own, again, and those of watchers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from server.access import CALLER
from server.audience import SUBSCRIBERS
from server.errors import ServiceError, bad_request
from server.transport import returning
from server.transport.socket import refuse, serve, upgrade

if TYPE_CHECKING:
    from aiohttp import web

    from server.manager import Manager
    from server.observe import Metrics
    from server.stay import Stay
    from server.transport.direct import DirectSocket


async def come_back(
    request: web.Request,
    manager: Manager,
    metrics: Metrics,
    told: Callable[[ServiceError], bytes],
    *,
    live: bool,
) -> DirectSocket:
    """Serves the session that the token of ``request`` leads back to; ``told`` is the event of a
    refusal.
    """
    shown = returning.token(request)
    try:
        stay = manager.back(shown, request[CALLER], live=live, leg=False)
    except ServiceError as error:
        ws = await upgrade(request)
        await refuse(ws, told(error), error)
        return ws
    ws = await upgrade(request, stay.tokens.renew(shown))
    await serve(ws, stay, metrics, after=returning.after(request))
    return ws


async def watch(request: web.Request, stay: Stay, metrics: Metrics, param: str) -> DirectSocket:
    """Lets a sideband watch and steer a session, which ``param`` named, until either ends.

    Raises:
        ServiceError: too many do already.
    """
    if stay.audience.crowded:
        message = f"{param}: expected at most {SUBSCRIBERS} clients of one session"
        raise bad_request("too_many_sidebands", message, param, 429)
    ws = await upgrade(request)
    await serve(ws, stay, metrics, "sideband")
    return ws
