"""One end of the stream between a server and an engine's process.

What is sent during one turn of the event loop leaves in one write: at fifty frames a second for
each caller, it is the system calls that cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from engine.contract import EngineError
from engine.remote.wire import FromHost, ToHost, Unpacker, pack

_BACKLOG = 128 << 20
"""Bytes that may wait for the other end to read; beyond that it is taken for dead."""


class Link(asyncio.Protocol):
    """Sends messages, and calls ``received`` with each that comes and ``lost`` at the end, once."""

    def __init__(
        self, kind: Any, received: Callable[[Any], None], lost: Callable[[str], None]
    ) -> None:
        self._unpacker = Unpacker(kind)
        self._received = received
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._pending: list[bytes] = []
        self._leaving = False
        self._transport: asyncio.Transport | None = None
        self._reason = "its process ended"
        self.writable = asyncio.Event()
        """Whether the other end keeps up with what is sent."""
        self.quiet = 0
        """Whoever watches the link counts here; what comes sets it back."""
        self.ended = asyncio.Event()
        """Whether ``lost`` has been called."""

    def send(self, message: ToHost | FromHost, *, within: float = 0.0) -> None:
        """Sends a message; after the end it is dropped.

        One that may take ``within`` seconds leaves with whatever is sent next, and in order.

        Raises:
            FrameTooLong: it is beyond the bound.
        """
        frame = pack(message)
        if within and not self._pending:
            self._loop.call_later(within, self.flush)
        elif not within and not self._leaving:
            self._leaving = True
            self._loop.call_soon(self.flush)
        self._pending.append(frame)

    def flush(self) -> None:
        """Writes what has been sent, now."""
        data, self._pending, self._leaving = b"".join(self._pending), [], False
        if self._transport is None or not data:
            return
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > _BACKLOG:
            self.abort("it has stopped reading")

    def abort(self, reason: str) -> None:
        """Ends the link at once."""
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        self.quiet = 0
        try:
            for message in self._unpacker.push(data):
                self._received(message)
        except (EngineError, msgspec.DecodeError):
            self.abort("it sent what cannot be read")

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.writable.set()
        self._lost(self._reason)
        self.ended.set()
