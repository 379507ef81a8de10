"""What the kernel does and knows about a client's connection.

Dead clients are noticed by it (keepalive and user timeout): many do not answer pings while they are
busy. While a socket is not read, only the kernel knows that its other end is closed. And it keeps
what came before a reset, when asyncio has given the connection up.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_CLOSED = getattr(select, "POLLRDHUP", 0)
"""Where only Linux tells of it, a socket that is not read shows its end when it is read again."""
_KEEPALIVE = (("TCP_KEEPIDLE", 4), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 2))
_USER_TIMEOUT_MS = 8_000
_UNREAD = 1 << 20


def keep_alive(sock: socket.socket) -> None:
    """Has the kernel notice a dead client within ten seconds, where it can."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*_KEEPALIVE, ("TCP_USER_TIMEOUT", _USER_TIMEOUT_MS)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_gone(sock: socket.socket | None) -> bool:
    """Whether the other end is closed, or the socket on ours."""
    if sock is None or sock.fileno() < 0:
        return True
    look = select.poll()
    look.register(sock.fileno(), _CLOSED)
    return bool(look.poll(0))


def unread(connection: asyncio.BaseTransport) -> bytes:
    """What came on a connection that is lost, and was not read, since a write had failed.

    Who leaves without reading all that was sent resets the connection behind its goodbye.
    """
    sock = connection.get_extra_info("socket")
    if sock is None or sock.fileno() < 0 or connection.get_extra_info("ssl_object"):
        return b""
    with suppress(OSError), sock.dup() as own:
        data: bytes = own.recv(_UNREAD)
        return data
    return b""
