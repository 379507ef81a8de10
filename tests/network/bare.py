"""Connections with no client library behind them: what clients do, and what happens to them."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiortc import RTCPeerConnection

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SO_ATTACH_FILTER = 26
"""Linux' ``asm-generic/socket.h``: the kernel asks a program which packets reach a socket."""

UPGRADE = (
    "GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)

SDP = {"Content-Type": "application/sdp"}
OFFER = "\r\n".join(
    (
        "v=0",
        "m=audio 9 UDP/TLS/RTP/SAVPF 111",
        "a=ice-ufrag:abcd",
        "a=ice-pwd:" + 24 * "x",
        "a=fingerprint:sha-256 " + ":".join(32 * ["AA"]),
        "",
    )
)
"""An offer in which nothing is missing."""


@asynccontextmanager
async def connection(url: str, said: str) -> AsyncIterator[Connection]:
    """A TCP connection on which ``said`` was said; at the end its process is as if killed."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(said.encode())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@asynccontextmanager
async def upgraded(url: str) -> AsyncIterator[asyncio.StreamWriter]:
    """A session on a bare connection."""
    async with connection(url, UPGRADE) as (reader, writer):
        await reader.readuntil(b'"session.created"')
        yield writer


def unplug(writer: asyncio.StreamWriter) -> None:
    """From here on no packet reaches this end: it acknowledges nothing and closes nothing."""
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HP", 1, ctypes.addressof(drop_all))
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def reset(client: socket.socket) -> None:
    """Closes a connection as the kernel does where not all that came was read."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def appending(length: int) -> str:
    """An append of as good as ``length`` characters of silence."""
    return '{"type":"input_audio_buffer.append","audio":"%s"}' % ("A" * (length // 8 * 8))


def frame(text: str) -> bytes:
    """A client's WebSocket frame of any length (RFC 6455, section 5.2), its mask zero."""
    data = text.encode()
    return struct.pack("!BBQI", 0x81, 0x80 | 127, len(data), 0) + data


async def pour(writer: asyncio.StreamWriter) -> None:
    """Sends a quarter of an hour of sound, as fast as it is taken."""
    for _ in range(100):
        writer.write(frame(appending(2**19)))
        await writer.drain()


def hang(peer: RTCPeerConnection) -> None:
    """A call's packets stop, as when its process is killed."""
    ice = peer.getTransceivers()[0].receiver.transport.transport
    for protocol in ice._connection._protocols:
        protocol.transport.abort()
