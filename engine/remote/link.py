"""One end of the stream between a server and an engine's process.

What is sent during one turn of the event loop, or while something waits, leaves together: at fifty
frames a second for each caller, it is the system calls that cost. Once it is a write's worth it
waits no longer, so that the other end has begun on it while the rest is still made.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from math import inf
from typing import Any

from engine.contract import EngineError
from engine.remote.wire import Message, Unpacker, Unsendable, pack

_BACKLOG = 128 << 20
"""Bytes that may wait for the other end to read."""
_BEHIND = 16 << 20
"""Bytes from which on it does not keep up: a frame of each of 500 callers are 4 MB, at once."""
_WRITTEN = 64 << 10
"""Bytes that are a write's worth. With a tick's frames for 384 callers in one piece, a frame came
at p99 30 ms late in the place of 18."""
_ON_THE_WAY = 4 << 20
"""Bytes that the kernel may hold, if it is allowed to: a tick's frames leave at once then."""
_READ = 512 << 10
"""Bytes that are read at once: more than clients send meanwhile, so that both ways keep step."""


class LinkFull(Unsendable):
    """Too much waits for the other end to read."""

    def __init__(self, size: int, room: int) -> None:
        super().__init__(f"link: expected at most {room} bytes now, got {size}")


class Link(asyncio.BufferedProtocol):
    """Sends messages, and calls ``received`` with each that comes and ``lost`` at the end, once."""

    def __init__(
        self, kind: Any, received: Callable[[Any], None], lost: Callable[[str], None]
    ) -> None:
        self._unpacker = Unpacker(kind)
        self._came = memoryview(bytearray(_READ))
        self._received = received
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._pending: list[bytes] = []
        self._held = 0
        self._within = inf
        """The fewest seconds that what is sent now has been given: what comes leaves as soon."""
        self._leaving: asyncio.Handle | None = None
        self._transport: asyncio.Transport | None = None
        self._reason = "its process ended"
        self.writable = False
        """Whether the other end keeps up with what is sent."""
        self.turned: Callable[[], None] | None = None
        """Called when that changes."""
        self.company = 0.0
        """Seconds that what comes often may wait for more of its kind; whoever sends it knows."""
        self.quiet = 0
        """Whoever watches the link counts here; what comes sets it back."""
        self.ended = asyncio.Event()
        """Whether ``lost`` has been called."""

    def send(self, message: Message, *, within: float = 0.0) -> None:
        """Sends a message; after the end it is dropped.

        One that may take ``within`` seconds leaves with whatever is sent next, and in order.

        Raises:
            Unsendable: it cannot be made a frame.
        """
        self._append(pack(message), within)

    def offer(self, frame: bytes, within: float = 0.0) -> None:
        """Sends a message's frame unless it takes more than half of the room that is left.

        So whoever sends much is refused long before those who send little.

        Raises:
            Unsendable: it is not sent.
        """
        if not self.writable:
            room = (_BACKLOG - self._waiting()) // 2
            if len(frame) > room:
                raise LinkFull(len(frame), max(room, 0))
        self._append(frame, within)

    def flush(self) -> None:
        """Writes what has been sent, now."""
        data, self._pending = b"".join(self._pending), []
        self._within, self._held = inf, 0
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        if self._transport is not None and data:
            self._transport.write(data)

    def _append(self, frame: bytes, within: float) -> None:
        if within < self._within:
            self._within = within
            if self._leaving is not None:
                self._leaving.cancel()
            soon, later = self._loop.call_soon, self._loop.call_later
            self._leaving = later(within, self.flush) if within else soon(self.flush)
        self._pending.append(frame)
        self._held += len(frame)
        if self._held >= _WRITTEN:
            self.flush()

    def _waiting(self) -> int:
        written = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._held + written

    def close(self) -> None:
        """Ends the link once what was written has left."""
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Ends the link at once."""
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=_BEHIND)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ON_THE_WAY)
        self._transport = transport
        self._turn(writable=True)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._came

    def buffer_updated(self, nbytes: int) -> None:
        self.quiet = 0
        try:
            for message in self._unpacker.push(self._came[:nbytes]):
                self._received(message)
        except (EngineError, ValueError):
            self.abort("it sent what cannot be read")

    def pause_writing(self) -> None:
        self._turn(writable=False)

    def resume_writing(self) -> None:
        self._turn(writable=True)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._turn(writable=True)
        self._lost(self._reason)
        self.ended.set()

    def _turn(self, *, writable: bool) -> None:
        self.writable = writable
        if self.turned is not None:
            self.turned()
