"""The front's requests about sessions: each is passed to the worker that has them.

A new session goes to the worker with the fewest. One that runs is found by the worker's number in
its id, whichever of its ids a request names: in the path, as ``call_id``, or in a resume token.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aiohttp import ClientError, web
from yarl import URL

from server.access import CALLER
from server.transport import returning
from server.transport.body import within
from server.workers.job import SENDER, sender
from server.workers.tunnel import lost, tunnel

if TYPE_CHECKING:
    from server.settings import ServerSettings
    from server.workers.handle import Worker
    from server.workers.pool import Pool

_PATHS = ("/v1/realtime", "/v1/realtime/calls{rest:.*}", "/v1/live/{rest:.*}")
_ID = re.compile(r"(?:rtc|sess)_w(\d{1,3})_")
_OF_THE_CONNECTION = frozenset(
    {
        *("connection", "content-length", "expect", "host", "keep-alive", "transfer-encoding"),
        *("upgrade", SENDER.lower()),
    }
)
"""Headers that are one connection's, or ours, and not passed on."""
_OF_AN_UPGRADE = frozenset({"connection", "host", "upgrade"})


class Gateway:
    """Answers them."""

    def __init__(self, pool: Pool, settings: ServerSettings) -> None:
        self._pool = pool
        self._patience = settings.limits.setup

    def add_to(self, app: web.Application) -> None:
        """Has ``app`` answer the requests."""
        app.add_routes([web.route("*", path, self._handle) for path in _PATHS])

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        worker = self._worker(request)
        asked = request.headers.get("Upgrade", "").lower()
        upgrade = request.method == "GET" and asked == "websocket"  # RFC 6455 section 4.1
        kept = _OF_AN_UPGRADE if upgrade else frozenset[str]()
        headers = [
            (name, value)
            for name, value in request.headers.items()
            if name.lower() in kept or name.lower() not in _OF_THE_CONNECTION
        ]
        headers.append((SENDER, sender(request[CALLER])))
        if upgrade:
            return await tunnel(request, worker.job.socket, headers)
        return await self._ask(worker, request, headers)

    def _worker(self, request: web.Request) -> Worker:
        if back := returning.token(request):
            self._pool.again(request[CALLER])
        named = (
            request.path,
            request.query.get("call_id", ""),
            back,
        )
        for name in named:
            if found := _ID.search(name):
                index = int(found[1])
                if index < len(self._pool.workers):
                    return self._pool.workers[index]
        return self._pool.choose()

    async def _ask(
        self, worker: Worker, request: web.Request, headers: list[tuple[str, str]]
    ) -> web.Response:
        body = await within(self._patience, request.read())
        if worker.http is None:
            raise lost()
        try:
            async with worker.http.request(
                request.method, _address(request), headers=headers, data=body
            ) as answer:
                kept = {
                    name: value
                    for name, value in answer.headers.items()
                    if name.lower() not in _OF_THE_CONNECTION
                }
                return web.Response(status=answer.status, body=await answer.read(), headers=kept)
        except ClientError:
            raise lost() from None


def _address(request: web.Request) -> URL:
    """As the client wrote it, but for the host."""
    return URL(f"http://worker{request.rel_url.raw_path_qs}", encoded=True)
