"""A WebSocket whose events come from a session, and go to it, whatever the protocol.

Sound travels in the events, so nothing here knows of it. Reading stops while the engine has no
room: the client's socket fills up, and nothing is lost. Writing never waits: each socket has one
writer with a bounded queue, and a client that does not read is closed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from server.errors import bad_request
from server.protocol.wire import MAX_EVENT
from server.requests import RequestError
from server.resume import HEADER, event_of
from server.transport import returning
from server.transport.direct import DirectSocket
from server.transport.kernel import is_gone, keep_alive
from server.transport.together import TOGETHER

if TYPE_CHECKING:
    from server.errors import ServiceError
    from server.observe import Metrics
    from server.presence import Tenure
    from server.protocol.adapter import Place
    from server.stay import Stay

MAX_MESSAGE = 20 * 1024 * 1024
"""Bytes per message: more than any event may have, so that one too long is answered as such."""
_QUEUED_EVENTS = 4_096
_QUEUED_BYTES = 32 * 1024 * 1024
_FLUSH = 2.0
"""Seconds for the last events to leave."""
_CLOSE = 2.0
"""Seconds for the client to close its side."""

_CLOSE_CODES = {
    "drain": WSCloseCode.GOING_AWAY,
    "server_stopped": WSCloseCode.GOING_AWAY,
    "internal_error": WSCloseCode.INTERNAL_ERROR,
    "engine_failed": WSCloseCode.INTERNAL_ERROR,
    "engine_lost": WSCloseCode.INTERNAL_ERROR,
}
"""How a session's end is told; any other end is a normal one."""

_ENDS = {WSMsgType.CLOSE: "hangup", WSMsgType.ERROR: "protocol_error"}
_HELD = 0.002
"""Seconds of taking events after which others have their turn."""
_LOOK = 1.0
"""Seconds between looks at whether a client is still there that is not read."""

log = structlog.get_logger(__name__)


class SocketSubscriber:
    """The writing half of one socket: what cannot leave at once is queued."""

    __slots__ = ("_bytes", "_changed", "_finished", "_metrics", "_queue", "_ws", "overrun")

    def __init__(self, ws: DirectSocket, metrics: Metrics) -> None:
        self._ws = ws
        self._metrics = metrics
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._finished = False
        self.overrun = asyncio.Event()
        """Set when the client did not read; nothing more is sent then."""

    def send(self, text: bytes) -> None:
        """Sends an event. Never blocks."""
        if not self._bytes and self._ws.send_now(text):
            return
        if self.overrun.is_set():
            return
        if len(self._queue) >= _QUEUED_EVENTS or self._bytes + len(text) > _QUEUED_BYTES:
            log.warning("client does not read", events=len(self._queue), size=self._bytes)
            self._metrics.slow_subscriber()
            self.overrun.set()
            return
        self._queue.append(text)
        self._bytes += len(text)
        self._changed.set()

    def finish(self) -> None:
        """No more events follow; :meth:`write` returns when it has sent what there is."""
        self._finished = True
        self._changed.set()

    async def write(self) -> None:
        """Sends what is queued, in order, until :meth:`finish` or the socket is gone."""
        with suppress(ConnectionError):
            while True:
                while self._queue:
                    text = self._queue.popleft()
                    self._bytes -= len(text)
                    await self._ws.send_text(text)
                if self._finished:
                    return
                self._changed.clear()
                await self._changed.wait()


class SocketReader:
    """The reading half of one socket: what cannot be taken at once waits to be received."""

    __slots__ = ("_free_at", "_inbox", "_stay", "_subscriber", "_ws")

    def __init__(self, ws: DirectSocket, stay: Stay, subscriber: SocketSubscriber) -> None:
        self._ws = ws
        self._stay = stay
        self._subscriber = subscriber
        self._inbox = stay.inbox
        self._free_at = 0.0

    def take(self, text: bytes) -> bool:
        """Takes an event soon after it was read; False: something has to be waited for.

        One client gets half of the loop's time at most: thousands of events may come at once.
        """
        now = time.monotonic()
        if self._free_at - now > _HELD or len(text) > MAX_EVENT or not self._inbox.reads_on:
            return False
        self._inbox.receive(text, self._subscriber)
        self._free_at = max(self._free_at, now) + 2 * (time.monotonic() - now)
        return True

    async def read(self) -> str:
        """Takes all other events; returns why no more come."""
        self._ws.take = self.take
        held = 0.0
        while True:
            message = await self._ws.receive()
            while not (self._inbox.reads_on or await self._caught_up()):
                if is_gone(self._ws.get_extra_info("socket")):
                    return "peer_lost"
            began = time.monotonic()
            if message.type is WSMsgType.BINARY:
                why = "expected a text frame, got a binary one"
                self._stay.refuse(self._subscriber, RequestError("invalid_event", why))
            elif message.type is not WSMsgType.TEXT:
                # Without a close frame it was not the client who ended the connection.
                return _ENDS.get(message.type, "peer_lost")
            elif len(message.data) <= MAX_EVENT:
                self._inbox.receive(message.data, self._subscriber)
            else:
                event = await asyncio.to_thread(self._stay.unpack, message.data)
                self._inbox.receive(event, self._subscriber)
            held += time.monotonic() - began
            if held > _HELD:
                held = 0.0
                await asyncio.sleep(0)  # Others have their turn.

    async def _caught_up(self) -> bool:
        """Waits a little until everything was heard, and says whether it was."""
        try:
            async with asyncio.timeout(_LOOK):
                await self._inbox.wait_for_room()
        except TimeoutError:
            return False
        return True


async def serve(
    ws: DirectSocket,
    stay: Stay,
    metrics: Metrics,
    place: Place = "client",
    after: str = "",
) -> None:
    """Carries a session's events both ways, until either ends; then the socket is closed.

    A client's session ends with its socket, unless that was only lost; a sideband leaves it as it
    is. ``after`` is the last event that a client who comes back has.
    """
    structlog.contextvars.bind_contextvars(session=stay.id)
    subscriber = SocketSubscriber(ws, metrics)
    writing = asyncio.create_task(subscriber.write())
    reading = asyncio.create_task(SocketReader(ws, stay, subscriber).read())
    ending = asyncio.create_task(stay.ended())
    overrun = asyncio.create_task(subscriber.overrun.wait())
    reason, code = "peer_lost", WSCloseCode.OK
    tenure: Tenure | None = None
    try:
        watched: set[asyncio.Future[Any]] = {writing, reading, ending, overrun}
        if place == "client":
            tenure = stay.attend(subscriber, after)
            stay.carry()
            watched.add(tenure)
        else:
            stay.audience.join(subscriber, place)
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if failed := [error for task in done if (error := task.exception())]:
            log.error("socket failed", exc_info=failed[0])
            reason, code = "internal_error", WSCloseCode.INTERNAL_ERROR
        elif overrun.done():
            reason, code = "slow_client", WSCloseCode.POLICY_VIOLATION
        elif ending.done():
            code = _CLOSE_CODES.get(ending.result(), WSCloseCode.OK)
            subscriber.finish()
            await asyncio.wait({writing}, timeout=_FLUSH)
        elif tenure is None or not tenure.done():  # else another connection has the session
            # Who says goodbye with events on the way to it ends the writing first.
            read, _ = await asyncio.wait({reading}, timeout=_CLOSE)
            reason = reading.result() if read else "peer_lost"
    finally:
        ws.take = None
        stay.audience.leave(subscriber)
        for task in (writing, reading, ending, overrun):
            task.cancel()
        if tenure is not None:
            await stay.leave(tenure, reason)
        await asyncio.gather(writing, reading, ending, overrun, return_exceptions=True)
    await ws.close(code=code, drain=False)


async def upgrade(request: web.Request, token: str = "") -> DirectSocket:
    """The request's socket; ``token`` leads its client back to the session, and is told with it.

    Raises:
        ServiceError: it asks for none.
    """
    ws = DirectSocket(("realtime",), MAX_MESSAGE, _CLOSE, request.app[TOGETHER])
    if not ws.can_prepare(request):
        raise bad_request("upgrade_required", "expected a WebSocket upgrade", status=426)
    if token:
        ws.headers[HEADER] = token
    await ws.prepare(request)
    if token and returning.tells(request):
        await ws.send_text(event_of(token))
    transport = request.transport
    if transport is not None:
        keep_alive(transport.get_extra_info("socket"))
    return ws


async def refuse(ws: DirectSocket, text: bytes, error: ServiceError) -> None:
    """Sends ``text``, an event that tells of ``error``, and closes.

    Browsers are not shown the status of a refused upgrade; an event they can read. Clients try
    again after the one code, and do not after the other.
    """
    busy = error.type == "server_error"
    code = WSCloseCode.TRY_AGAIN_LATER if busy else WSCloseCode.POLICY_VIOLATION
    await ws.send_text(text)
    await ws.close(code=code, message=error.code.encode())
