"""``POST /v1/realtime/client_secrets``: what a browser may start sessions with, and nothing else.

The session is checked when the secret is made, and answered as it would begin, so that whoever
makes it learns of a mistake and not the page's visitor.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from server.access import CALLER
from server.errors import ServiceError, refused
from server.protocol import wire
from server.protocol.realtime.opening import open_session
from server.replies import new_id
from server.requests import RequestError
from server.transport.body import json_object, within
from server.transport.models import asked_model, model_of

if TYPE_CHECKING:
    from server.client_secrets import ClientSecrets
    from server.manager import Manager
    from server.settings import ServerSettings

_FULL = 60.0
"""Seconds after which some secret may have expired."""


class ExpiresAfter(Struct, frozen=True):
    """When a secret expires; the bounds are OpenAI's."""

    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Meta(ge=10, le=7200)] = 600


class Wanted(Struct, frozen=True):
    """The request's body."""

    expires_after: ExpiresAfter | None = None
    session: dict[str, Any] | None = None


class ClientSecretRequests:
    """Makes client secrets."""

    def __init__(self, manager: Manager, settings: ServerSettings, secrets: ClientSecrets) -> None:
        self._manager = manager
        self._settings = settings
        self._secrets = secrets

    async def create(self, request: web.Request) -> web.Response:
        """Answers with the secret, when it expires, and the whole session that it starts.

        Raises:
            ServiceError: the request is no good, or the caller has too many secrets.
        """
        wanted = _wanted(await within(self._settings.limits.setup, request.read()))
        session = {"type": "realtime"} if wanted.session is None else wanted.session
        model = asked_model(
            model_of(session), self._settings.names, self._manager.info, "session.model"
        )
        try:
            terms = self._manager.terms()
            opening = open_session(session, terms, id=new_id("sess"), model=model)
        except RequestError as error:
            raise refused(error) from None
        now = time.time()
        expires_at = int(now + (wanted.expires_after or ExpiresAfter()).seconds)
        owner = request[CALLER].key
        value = self._secrets.make(owner, msgspec.json.encode(session), expires_at, now)
        if value is None:
            message = "expected fewer client secrets of one API key at once; ask again later"
            raise ServiceError(
                429, "server_error", "rate_limit_exceeded", message, retry_after=_FULL
            )
        answer = {"value": value, "expires_at": expires_at, "session": opening.shown}
        return web.Response(
            body=msgspec.json.encode(answer),
            content_type="application/json",
            headers={"Cache-Control": "no-store"},
        )


def _wanted(body: bytes) -> Wanted:
    plain = json_object(body or b"{}", "invalid_json")
    try:
        wanted: Wanted = wire.convert(plain, Wanted)
    except RequestError as error:
        raise refused(error) from None
    return wanted
