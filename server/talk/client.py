"""The shell: a WebSocket, a handset and a screen around one :class:`Dialogue`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import AsyncIterator

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientError,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    ClientWebSocketResponse,
    WSCloseCode,
    WSMsgType,
    WSServerHandshakeError,
)

from engine.audio.pcm import to_pcm16
from engine.clock import Clock, Wait
from server.talk import events
from server.talk.address import Address
from server.talk.captions import Line
from server.talk.dialogue import Dialogue, append
from server.talk.ending import Ending
from server.talk.files import Recording
from server.talk.handset import Handset
from server.talk.screen import Screen

_STEP = 20_000_000
"""Nanoseconds."""
_CONNECT = 10.0
_BEGIN = 15.0
"""Seconds for the session to be made."""
_ALIVE = 20.0
"""Seconds between pings; a server that answers none is gone."""
_LARGEST = 16 * 1024 * 1024
"""Bytes of an event."""

_REFUSALS = {
    401: "asks for a key: give --key, or the whole URL that it printed",
    403: "does not answer under this address; see its allowed_hosts and trusted_proxies",
    404: "has no Realtime endpoint or no such model there",
    429: "has had enough calls from here for now; call again later",
    503: "takes no calls now; call again later",
}
_ENDS: dict[int, str] = {
    WSCloseCode.OK: "the server ended the call",
    WSCloseCode.GOING_AWAY: "the server is going down",
    WSCloseCode.POLICY_VIOLATION: "the server ended the call: its rules were broken",
    WSCloseCode.INTERNAL_ERROR: "the server failed",
    WSCloseCode.TRY_AGAIN_LATER: "the server is busy; call again later",
}


class CallProblem(Exception):
    """There is no call, or no more of it; the message says why, in one line."""


class Call:
    """One call.

    Args:
        handset: the caller's.
        screen: where it is shown, that of ``dialogue``.
        recording: takes what is played, where it is not None.
    """

    def __init__(
        self, dialogue: Dialogue, handset: Handset, screen: Screen, recording: Recording | None
    ) -> None:
        self._dialogue = dialogue
        self._handset = handset
        self._screen = screen
        self._recording = recording
        self._ending = Ending()
        self._begun = asyncio.Event()
        self._moved = False

    async def run(self, address: Address, tls: ssl.SSLContext | None) -> None:
        """Calls, and talks until a handset that ends has been answered.

        Raises:
            CallProblem: no connection, no session, no answer, or the server left.
            HandsetProblem: the handset failed.
        """
        async with _connected(address, tls) as ws:
            reading = asyncio.create_task(self._read(ws))
            try:
                await self._begin(reading)
                self._screen.line(Line(None, f"connected to {address.origin}"))
                try:
                    await self._talk(ws, reading)
                finally:
                    self._screen.close()
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _begin(self, reading: asyncio.Task[None]) -> None:
        begun = asyncio.create_task(self._begun.wait())
        await asyncio.wait({begun, reading}, timeout=_BEGIN, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if reading.done():
            reading.result()
        if not self._begun.is_set():
            raise CallProblem(f"the server made no session within {_BEGIN:.0f} s")

    async def _talk(self, ws: ClientWebSocketResponse, reading: asyncio.Task[None]) -> None:
        """Moves sound both ways in real time; a step that comes late is made up for."""
        clock, epoch = Clock(_STEP), time.monotonic_ns()
        while not reading.done():
            due = clock.poll(time.monotonic_ns() - epoch)
            if isinstance(due, Wait):
                await asyncio.sleep(due.nanoseconds / 1e9)
                continue
            for _ in range(1 + due.skipped):
                with contextlib.suppress(ConnectionError):  # The reader learns why.
                    await self._step(ws)
            if self._handset.ended and self._is_over():
                return
        reading.result()

    async def _step(self, ws: ClientWebSocketResponse) -> None:
        playback = self._dialogue.playback
        self._moved = self._moved or bool(playback.waiting)
        sound = playback.take(self._handset.room)
        self._handset.play(sound)
        self._screen.parley.see(sound)
        if self._recording is not None:
            self._recording.write(sound)
        said = self._handset.heard()
        self._screen.you.see(said)
        self._screen.step()
        if len(said):
            await ws.send_json(append(to_pcm16(said)))

    def _is_over(self) -> bool:
        dialogue = self._dialogue
        moved, self._moved = self._moved, False
        verdict = self._ending.poll(
            time.monotonic_ns(), moved=moved, busy=dialogue.busy, answered=dialogue.answered
        )
        if verdict == "unanswered":
            raise CallProblem("the server heard nothing that it answered")
        return verdict == "over"

    async def _read(self, ws: ClientWebSocketResponse) -> None:
        """Takes events until the server leaves.

        Raises:
            CallProblem: always; how the call ended.
        """
        async for message in ws:
            if message.type is WSMsgType.TEXT:
                try:
                    step = self._dialogue.see(events.parse(message.data))
                except ValueError as problem:
                    raise CallProblem(str(problem)) from None
                for line in step.lines:
                    self._screen.line(line)
                for event in step.send:
                    with contextlib.suppress(ConnectionError):  # The end is told by what is read.
                        await ws.send_json(event)
                self._moved = True
                if self._dialogue.begun:
                    self._begun.set()
        raise CallProblem(_ENDS.get(ws.close_code or 0, "the connection broke off"))


@contextlib.asynccontextmanager
async def _connected(
    address: Address, tls: ssl.SSLContext | None
) -> AsyncIterator[ClientWebSocketResponse]:
    """A WebSocket to the server; what is in the way is said in one line.

    What aiohttp says of its errors is not passed on: it may hold the whole address.
    """
    async with ClientSession(timeout=ClientTimeout(sock_connect=_CONNECT)) as web:
        try:
            async with asyncio.timeout(_CONNECT):
                ws = await web.ws_connect(
                    address.url,
                    headers=address.headers,
                    heartbeat=_ALIVE,
                    max_msg_size=_LARGEST,
                    ssl=True if tls is None else tls,
                )
        except (ClientError, TimeoutError) as problem:
            raise CallProblem(_in_the_way(address.origin, problem)) from None
        try:
            yield ws
        finally:
            await ws.close()


def _in_the_way(origin: str, problem: Exception) -> str:
    match problem:
        case WSServerHandshakeError(status=status):
            answered = f"answered with status {status}, expected a WebSocket"
            return f"{origin} {_REFUSALS.get(status, answered)}"
        case ClientConnectorCertificateError():
            return f"{origin} shows a certificate that is not trusted; see --ca and --insecure"
        case ClientSSLError():
            return f"{origin} does not speak TLS as expected; is it http:// rather than https://?"
        case ClientConnectorError():
            return f"cannot reach {origin}: {_reason(problem.os_error)}"
        case TimeoutError():
            return f"{origin} did not answer within {_CONNECT:.0f} s"
    return f"{origin} does not answer as a server of Realtime does"


def _reason(problem: OSError) -> str:
    """Why there is no connection; a resolver has texts of its own, with numbers below zero."""
    if problem.errno is not None and problem.errno > 0:
        return os.strerror(problem.errno)
    return problem.strerror or "nothing listens there"
