"""The events of a call: its data channel, as a subscriber of the session.

The channel may be announced by the caller, already open, under any label; or be agreed beforehand
by its id. Either way the first one counts. What is sent before it opens waits for it, so a call
that offered none is not subscribed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import msgspec
import structlog

from server.errors import unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiortc import RTCDataChannel

    from server.errors import ServiceError

_WAITING = 2_048
"""Messages that may wait for the channel to open."""
_BUFFERED = 4 * 1024 * 1024
"""Bytes that the caller may leave unread."""
_FLUSH = 1.0
_FLUSH_STEP = 0.05
"""Seconds; the last events are given so long to leave."""

log = structlog.get_logger(__name__)


class _Head(msgspec.Struct):
    type: str


class EventChannel:
    """The data channel of one call.

    Args:
        max_message: the longest message the caller takes, in bytes; 0 for any.
        received: called with each text message.
        refused: called where an event cannot be sent; has that told.
        closed: called once with a reason when the channel cannot go on.
    """

    def __init__(
        self,
        max_message: int,
        received: Callable[[str], None],
        refused: Callable[[ServiceError], None],
        closed: Callable[[str], None],
    ) -> None:
        self._max_message = max_message
        self._received = received
        self._refused = refused
        self._closed = closed
        self._channel: RTCDataChannel | None = None
        self._waiting: deque[bytes] = deque()

    @property
    def is_open(self) -> bool:
        return self._channel is not None and self._channel.readyState == "open"

    def attach(self, channel: RTCDataChannel, opened: Callable[[], None]) -> None:
        """Takes ``channel`` if it is the first; ``opened`` is called once it is open."""
        if self._channel is not None:
            return
        self._channel = channel

        def on_open() -> None:
            while self._waiting:
                self._put(self._waiting.popleft())
            opened()

        def on_message(message: str | bytes) -> None:
            if isinstance(message, bytes):
                message = message.decode("utf-8", "replace")
            self._received(message)

        channel.on("message", on_message)
        channel.on("close", lambda: self._closed("hangup"))
        if channel.readyState == "open":
            on_open()
        else:
            channel.on("open", on_open)

    def send(self, text: bytes) -> None:
        """Sends an event, now or when the channel opens. Never blocks."""
        if self.is_open:
            self._put(text)
        elif len(self._waiting) < _WAITING:
            self._waiting.append(text)
        else:
            self._closed("failed")

    async def flush(self) -> None:
        """Waits, a bounded time, until what was sent is on its way."""
        waited = 0.0
        while self.is_open and waited < _FLUSH:
            await asyncio.sleep(_FLUSH_STEP)
            waited += _FLUSH_STEP
            if self._channel is not None and self._channel.bufferedAmount == 0:
                return

    def _put(self, text: bytes) -> None:
        channel = self._channel
        assert channel is not None
        size = len(text)
        if self._max_message and size > self._max_message:
            kind = msgspec.json.decode(text, type=_Head).type
            log.warning("event too long for the caller", kind=kind, size=size)
            # Stands in the place of the event: nobody waits for it in vain.
            message = f"{kind}: left out; {size} bytes, and this connection carries"
            self._refused(unavailable("event_too_large", f"{message} {self._max_message}."))
        elif channel.bufferedAmount + size > _BUFFERED:
            log.warning("caller does not read its events", unread=channel.bufferedAmount)
            self._closed("failed")
        else:
            channel.send(text.decode())
