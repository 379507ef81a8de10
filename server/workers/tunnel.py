"""A WebSocket whose session lives in a worker: its bytes pass through as they are.

The client's request is repeated on the worker's Unix socket. What the client sends waits until the
worker has agreed, so that nothing but a WebSocket's frames ever follows the request: a worker
believes the front's headers, and a client could otherwise send a request of its own behind it.
Each side is read as fast as the other takes it. A worker that breaks off says no goodbye, so that
is said here, as the session's own process would (RFC 6455 section 5.5.1).
"""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from http.client import parse_headers
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import WSCloseCode, web

from server.errors import ServiceError, unavailable
from server.transport.kernel import is_gone, keep_alive, unread

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEAD = 64 * 1024
"""Bytes of a worker's answer up to its body."""
_READ = 64 * 1024
_BEHIND = 256 * 1024
"""Bytes that one side may have waiting before the other is read no further."""
_LOOK = 1.0
"""Seconds between looks at whether a client is still there that is not read."""
_LOST = b"worker_lost"

_CLOSE = 8
_LONG, _LONGER = 126, 127
"""What stands for the length of a frame whose length follows, in two bytes or eight."""


class Frames:
    """Follows a server's frames (unmasked), however they are cut. Pure."""

    def __init__(self) -> None:
        self._left = 0
        self._head = b""
        self.closed = False
        """Whether a close frame has passed."""

    @property
    def between(self) -> bool:
        """Whether the last frame is whole, so that another could follow."""
        return not self._left and not self._head

    def push(self, data: bytes) -> None:
        """Takes the next bytes."""
        at = 0
        while at < len(data):
            if self._left:
                passed = min(self._left, len(data) - at)
                self._left -= passed
                at += passed
                continue
            self._head += data[at : at + 1]
            at += 1
            if len(self._head) >= 2 and len(self._head) == 2 + self._extra():
                self._begin()

    def _extra(self) -> int:
        return {_LONG: 2, _LONGER: 8}.get(self._head[1], 0)

    def _begin(self) -> None:
        head, self._head = self._head, b""
        self.closed = self.closed or head[0] & 0x0F == _CLOSE
        self._left = int.from_bytes(head[2:], "big") if len(head) > 2 else head[1]


def goodbye(code: int, reason: bytes) -> bytes:
    """A server's close frame."""
    return bytes((0x80 | _CLOSE, 2 + len(reason))) + code.to_bytes(2, "big") + reason


class _FromClient:
    """Takes a client's bytes in the place of a parser; aiohttp calls it with each read."""

    def __init__(self, client: asyncio.Transport, worker: asyncio.StreamWriter) -> None:
        self._client = client
        self._worker = worker
        self._waiting: asyncio.Task[None] | None = None

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._worker.write(data)
        if self._waiting is None and self._worker.transport.get_write_buffer_size() > _BEHIND:
            self._client.pause_reading()
            self._waiting = asyncio.create_task(self._resume())
        return False, b""

    def feed_eof(self) -> None:
        """The client is gone; its session is told by the end of its socket, now or soon."""
        self._worker.write(unread(self._client))
        self._worker.close()
        asyncio.get_running_loop().call_later(_LOOK, self._worker.transport.abort)

    async def _resume(self) -> None:
        while self._worker.transport.get_write_buffer_size() > _BEHIND:
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(_LOOK):
                    await self._worker.drain()
                    break
            if is_gone(self._client.get_extra_info("socket")):
                self._client.abort()
                return
        self._waiting = None
        self._client.resume_reading()


class _Passed(web.StreamResponse):
    """Stands for an answer that has left already."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


async def tunnel(
    request: web.Request, path: Path, headers: Iterable[tuple[str, str]]
) -> web.StreamResponse:
    """Repeats ``request``, a GET that asks for an upgrade, at ``path``; passes on what follows.

    Raises:
        ServiceError: the worker is gone.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(str(path), limit=_HEAD)
    except OSError:
        raise lost() from None
    try:
        writer.write(_request(request, headers))
        answer = await reader.readuntil(b"\r\n\r\n")
        if b" 101 " not in answer.split(b"\r\n", 1)[0]:
            return await _refusal(answer, reader)
        await _pass(request, answer, reader, writer)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise lost() from None
    finally:
        writer.close()
    return _Passed()


def lost() -> ServiceError:
    """The error of a request whose worker has gone meanwhile."""
    return unavailable("worker_lost", "the process of this session is gone; call again", 1.0)


def _request(request: web.Request, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"{request.method} {request.rel_url.raw_path_qs} HTTP/1.1"]
    lines += (f"{name}: {value}" for name, value in headers)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


async def _refusal(answer: bytes, reader: asyncio.StreamReader) -> web.Response:
    status, fields = answer.split(b"\r\n", 1)
    given = parse_headers(io.BytesIO(fields))
    body = await reader.readexactly(int(given["Content-Length"]))
    kept = {name: given[name] for name in ("Content-Type", "Retry-After") if name in given}
    return web.Response(status=int(status.split()[1]), body=body, headers=kept)


async def _pass(
    request: web.Request,
    answer: bytes,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    client = request.transport
    if client is None:
        return
    keep_alive(client.get_extra_info("socket"))
    protocol: Any = request.protocol  # its parser need not be a WebSocket's
    protocol.keep_alive(False)
    protocol.set_parser(_FromClient(client, writer))
    frames = Frames()
    with suppress(ConnectionError):  # the client is gone
        await request.writer.write(answer)
        while data := await _read(reader):
            frames.push(data)
            await request.writer.write(data)
        if frames.between and not frames.closed:
            await request.writer.write(goodbye(WSCloseCode.INTERNAL_ERROR, _LOST))
    protocol.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """What the worker sent; nothing at its end, however that came."""
    try:
        return await reader.read(_READ)
    except ConnectionError:
        return b""
