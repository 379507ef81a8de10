"""A WebSocket whose texts are taken soon after they were read, without a queue between.

A queue and a task between a socket and its session cost more than all that a frame of sound needs
besides. So a text goes from aiohttp's parser straight to whoever takes texts, and an event straight
to the transport; both of all sockets together (:mod:`server.transport.together`). The queue and
:meth:`receive` remain for everything else: what cannot be taken now, control frames, errors, and
the end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.http import WebSocketReader

from server.transport.kernel import unread

if TYPE_CHECKING:
    import asyncio

    from aiohttp.http import WebSocketWriter, WSMessage
    from aiohttp.http_websocket import WSMessageNoDecodeText, WSMessageTextBytes

    from server.transport.together import Together

    Message = WSMessage | WSMessageTextBytes

_READ_AHEAD = 1 << 16
"""Bytes that may wait to be received before the client is read no further, twice that at most; and
of texts that wait to be taken."""
_AT_ONCE = 16
"""Texts of one client that are taken before others have their turn, of thousands that may come."""
_WRITTEN_LATER = 1 << 16
"""Bytes of texts that wait for the end of the turn; more are written at once."""
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
        together: with whose it reads and writes.
    """

    __slots__ = (
        "_in_hand", "_most", "_size", "_transport", "_unwritten", "take", "together", "untaken",
    )  # fmt: skip

    def __init__(
        self, protocols: tuple[str, ...], most: int, timeout: float, together: Together
    ) -> None:
        super().__init__(
            protocols=protocols,
            max_msg_size=most,
            compress=False,
            timeout=timeout,
            decode_text=False,
        )
        self._most = most
        self._transport: asyncio.Transport | None = None
        self.together = together
        self.untaken = 0
        """Messages that wait to be received, or whose receiver is not done with them."""
        self._unwritten: list[bytes] = []
        self._size = 0
        self._in_hand = False
        self.take: Callable[[bytes], bool] | None = None
        """Takes a text, or says that it does not (False). None: all wait to be received."""

    async def send_text(self, text: bytes) -> None:
        """Sends a text, in UTF-8, once the client is not too far behind."""
        self.flush()
        await self.send_frame(text, WSMsgType.TEXT)

    def send_now(self, text: bytes) -> bool:
        """Sends a text soon, unless the client is behind with what was written before (False)."""
        transport = self._transport
        if transport is None or transport.get_write_buffer_size():
            return False
        if not self._unwritten:
            self.together.write(self.flush)
        size = len(text)
        self._unwritten.append(
            _LONG.pack(_TEXT, 126, size) if 125 < size < 1 << 16 else _head(size)
        )
        self._unwritten.append(text)
        self._size += size
        if self._size > _WRITTEN_LATER:
            self.flush()
        return True

    def flush(self) -> None:
        """Writes what is to be sent soon, now."""
        transport, data = self._transport, b"".join(self._unwritten)
        self._unwritten, self._size = [], 0
        if data and transport is not None and not transport.is_closing():
            transport.write(data)

    async def close(
        self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True
    ) -> bool:
        """Says goodbye, behind all texts, and waits for the client's."""
        self.flush()
        return await super().close(code=code, message=message, drain=drain)

    async def receive(self, timeout: float | None = None) -> WSMessageNoDecodeText:  # noqa: ASYNC109 - the base's
        """The next message that was not taken; whoever asks for it is done with the last.

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
    """What came: texts are taken together with others' soon, the rest waits to be received."""

    __slots__ = ("_came", "_held", "_socket")

    def __init__(self, socket: DirectSocket, protocol: web.RequestHandler) -> None:
        super().__init__(protocol, _READ_AHEAD, loop=protocol._loop)
        self._socket = socket
        self._came: list[tuple[Message, int]] = []
        self._held = 0  # bytes of them

    def feed_data(self, data: Message, size: int) -> None:
        socket, came = self._socket, self._came
        if data.type is not WSMsgType.TEXT or socket.untaken or len(came) == _AT_ONCE:
            self._take()
            self._wait(data, size)
            return
        if not came:
            socket.together.take(self._take)
        came.append((data, size))
        self._held += size
        if self._held > _READ_AHEAD:
            self._take()

    def feed_eof(self) -> None:
        self._socket.read_rest()
        self._take()
        super().feed_eof()

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        self._take()
        super().set_exception(exc, *cause)

    def _take(self) -> None:
        """Has the texts that came taken, in order, up to one that has to wait; so do all others."""
        came, self._came, self._held = self._came, [], 0
        for data, size in came:
            take = None if self._socket.untaken else self._socket.take
            if take is None or not take(data.data):
                self._wait(data, size)

    def _wait(self, data: Message, size: int) -> None:
        self._socket.untaken += data.type in _MESSAGES
        super().feed_data(data, size)


def _head(size: int) -> bytes:
    """What stands before a text of ``size`` bytes in a server's frame (RFC 6455, section 5.2)."""
    if size < 126:
        return _SHORT.pack(_TEXT, size)
    if size < 1 << 16:
        return _LONG.pack(_TEXT, 126, size)
    return _LONGEST.pack(_TEXT, 127, size)
