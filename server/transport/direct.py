"""A WebSocket whose texts are taken in the turn of the event loop in which they were read.

A queue and a task between a socket and its session cost more than all that a frame of sound needs
besides. So a text goes from aiohttp's parser straight to whoever takes texts, and an event straight
to the transport. The queue and :meth:`receive` remain for everything else: what cannot be taken
now, control frames, errors, and the end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from aiohttp import WSMsgType, web
from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.http import WebSocketReader

from server.transport.kernel import unread

if TYPE_CHECKING:
    import asyncio

    from aiohttp.http import WebSocketWriter, WSMessage
    from aiohttp.http_websocket import WSMessageNoDecodeText, WSMessageTextBytes

    Message = WSMessage | WSMessageTextBytes

_READ_AHEAD = 1 << 16
"""Bytes that may wait to be received before the client is read no further; twice that at most."""
_SHORT = struct.Struct("!BB")
_LONG = struct.Struct("!BBH")
_LONGEST = struct.Struct("!BBQ")
_TEXT = 0x81
_MESSAGES = (WSMsgType.TEXT, WSMsgType.BINARY)


class DirectSocket(web.WebSocketResponse[Literal[False]]):
    """One client's socket.

    Args:
        protocols: subprotocols that may be agreed on.
        most: bytes of a message, at most.
        timeout: seconds for the client to close its side.
    """

    def __init__(self, protocols: tuple[str, ...], most: int, timeout: float) -> None:
        super().__init__(
            protocols=protocols,
            max_msg_size=most,
            compress=False,
            timeout=timeout,
            decode_text=False,
        )
        self._most = most
        self._transport: asyncio.Transport | None = None
        self.untaken = 0
        """Messages that were read, and not yet taken care of."""
        self._in_hand = False
        self.take: Callable[[bytes], bool] | None = None
        """Takes a text at once, or says that it does not (False); it must not raise. None: all wait
        to be received."""

    async def send_text(self, text: bytes) -> None:
        """Sends a text, in UTF-8, once the client is not too far behind."""
        await self.send_frame(text, WSMsgType.TEXT)

    def send_now(self, text: bytes) -> bool:
        """Writes a text, unless the client is behind with what was written before (False)."""
        transport = self._transport
        if transport is None or transport.get_write_buffer_size():
            return False
        if not transport.is_closing():
            transport.write(_head(len(text)) + text)
        return True

    async def receive(self, timeout: float | None = None) -> WSMessageNoDecodeText:  # noqa: ASYNC109 - the base's
        """The next message that was not taken at once; whoever asks for it is done with the last.

        So no text overtakes another that is still being taken care of.
        """
        self.untaken -= self._in_hand
        self._in_hand = False
        message = await super().receive(timeout)
        self._in_hand = message.type in _MESSAGES
        return message

    def read_rest(self) -> None:
        """Takes what came before the connection was lost: a goodbye may be in it."""
        if self._transport is not None and self._parser is not None:
            self._parser.feed_data(unread(self._transport))

    def _post_start(
        self, request: web.BaseRequest, protocol: str | None, writer: WebSocketWriter
    ) -> None:
        """Does what the base does, with a queue of our own."""
        self._ws_protocol = protocol
        self._writer = writer
        self._transport = writer.transport
        self._reader = _Queue(self, request.protocol)
        self._parser = WebSocketReader(self._reader, self._most, compress=False, decode_text=False)
        request.protocol.set_parser(self._parser)
        request.protocol.keep_alive(False)


class _Queue(WebSocketDataQueue):
    """What is taken at once, or waits to be received."""

    def __init__(self, socket: DirectSocket, protocol: web.RequestHandler) -> None:
        super().__init__(protocol, _READ_AHEAD, loop=protocol._loop)
        self._socket = socket

    def feed_data(self, data: Message, size: int) -> None:
        socket, kind = self._socket, data.type
        if socket.take and not socket.untaken and kind is WSMsgType.TEXT and socket.take(data.data):
            return
        socket.untaken += kind in _MESSAGES
        super().feed_data(data, size)

    def feed_eof(self) -> None:
        self._socket.read_rest()
        super().feed_eof()


def _head(size: int) -> bytes:
    """What stands before a text of ``size`` bytes in a server's frame (RFC 6455, section 5.2)."""
    if size < 126:
        return _SHORT.pack(_TEXT, size)
    if size < 1 << 16:
        return _LONG.pack(_TEXT, 126, size)
    return _LONGEST.pack(_TEXT, 127, size)
