"""What pages of other sites may send and read (CORS), and headers that every response carries."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from server.seen import see

if TYPE_CHECKING:
    from server.access import Access

_ALLOWED_HEADERS = re.compile(
    r"authorization|content-type|x-api-key|api-key|parley-resume"
    r"|x-openai-agents-sdk|openai-[a-z-]+|x-stainless-[a-z-]+"
)
_SHOWN_HEADERS = "Location, Parley-Resume, Retry-After"

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


def allowed_headers(asked: str) -> str:
    """The request headers of a preflight that are granted: those that OpenAI's clients send."""
    names = (name.strip().lower() for name in asked.split(","))
    return ", ".join(name for name in names if _ALLOWED_HEADERS.fullmatch(name))


def preflight(request: web.Request) -> web.Response:
    """Answers an allowed page that asks what it may send."""
    asked = request.headers.get("Access-Control-Request-Headers", "")
    return web.Response(
        status=204,
        headers={
            "Access-Control-Allow-Methods": "GET, POST, DELETE",
            "Access-Control-Allow-Headers": allowed_headers(asked),
            "Access-Control-Max-Age": "600",
        },
    )


def cross_origin(access: Access) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """The signal that adds security headers, and lets allowed pages read the response."""

    async def add(request: web.Request, response: web.StreamResponse) -> None:
        seen = see(request, access.proxies)
        response.headers.update(SECURITY_HEADERS)
        if seen.origin is not None and access.allows_origin(seen):
            response.headers["Access-Control-Allow-Origin"] = seen.origin
            response.headers["Access-Control-Expose-Headers"] = (
                "Location, Parley-Resume, Retry-After"
            )
            response.headers["Vary"] = "Origin"

    return add
