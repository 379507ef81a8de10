"""What a request says of coming back to a session: see :mod:`server.resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.resume import AFTER, HEADER, QUERY

if TYPE_CHECKING:
    from aiohttp import web


def token(request: web.Request) -> str:
    """The token that is shown; empty: the request is not to come back."""
    return request.headers.get(HEADER) or request.query.get(QUERY, "")


def tells(request: web.Request) -> bool:
    """Whether the token is to be told as an event."""
    return QUERY in request.query


def after(request: web.Request) -> str:
    """The last event that the client has, as far as it says."""
    return request.query.get(AFTER, "")
