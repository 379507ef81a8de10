"""How errors leave the server as answers to HTTP requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from server.errors import ServiceError, bad_request
from server.pages import render

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

log = structlog.get_logger(__name__)


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error leaves as OpenAI's JSON, or as a page where a person looks.

    One of ours is logged, and its text stays here.
    """
    try:
        return await handler(request)
    except ServiceError as error:
        return _response(request, error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        code = error.reason.lower().replace(" ", "_")
        return _response(request, bad_request(code, error.reason, status=error.status))
    except Exception:
        log.exception("request failed", method=request.method, path=request.path)
        message = "the server failed; see its log"
        return _response(request, ServiceError(500, "server_error", "internal_error", message))


def _response(request: web.Request, error: ServiceError) -> web.Response:
    status, headers = error.status, error.headers()
    if "text/html" not in request.headers.get("Accept", ""):
        return web.json_response(error.body(), status=status, headers=headers)
    page = render("error.html", code=error.code, message=error.message)
    return web.Response(text=page, content_type="text/html", status=status, headers=headers)
