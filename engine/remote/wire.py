"""What passes between a server and an engine in a process of its own.

Frames over one stream socket, little-endian, each with a head: how long the rest is, and which
session's sound. Sound, which is nearly everything, is its reply's name and 16-bit samples; anything
else is of session 0 and a msgpack message: one of the structs below, orders and events inside as
the contract has them. Everything is in one order per direction.

The socket is inherited, and both ends run the same code on one machine: nothing here defends
against a stranger. The bound on a frame catches a bug before it takes the memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct

from engine.audio import pcm
from engine.contract import EngineError, EngineInfo, Event, Order, Sound, State

MAX_FRAME = 64 << 20
"""Bytes of a message, at most."""
_HEAD = struct.Struct("<IIH")
"""Bytes behind the head; the session whose sound they are, or 0; bytes of its reply's name."""
_LONGEST_NAME = 0xFFFF
_NAMES = 64
"""Replies' names that are remembered."""


class Unsendable(EngineError):
    """A message cannot pass."""


class FrameTooLong(Unsendable):
    """A message is beyond the bound."""

    def __init__(self, size: int) -> None:
        super().__init__(f"frame: expected at most {MAX_FRAME} bytes, got {size}")


class _Message(Struct, array_like=True, tag=True):
    """Base of all messages."""


class Audio(Struct, frozen=True):
    """More sound of session ``session``: the caller's, or that of reply ``reply``."""

    session: int
    pcm: Sound
    reply: str = ""


# To the engine's process


class Begin(_Message):
    """Be engine ``name``; the answer is ``Ready`` or ``Failed``. ``debug``: log that level too.

    ``door``: the Unix socket by which other servers may join, if any.
    """

    name: str
    options: dict[str, Any]
    debug: bool = False
    door: str = ""


class Join(_Message):
    """Serve me too; the answer is ``Ready``."""


class Open(_Message):
    """Open session ``session``; the answer is ``Opened``, ``Busy`` or ``Unavailable``.

    ``context`` stands in every line that is logged of the session.
    """

    session: int
    context: dict[str, Any] = {}


class Give(_Message):
    """An order for a session."""

    session: int
    order: Order


class End(_Message):
    """Stop the engine, tell its sessions, and end."""


# From the engine's process


class Ready(_Message):
    """The engine has started."""

    info: EngineInfo


class Failed(_Message):
    """The engine cannot start."""

    message: str


class Opened(_Message):
    """The session is open and has room for ``room`` samples."""

    session: int
    room: int


class Busy(_Message):
    """No place is free."""

    session: int
    retry_after: float


class Unavailable(_Message):
    """No session can be opened."""

    session: int
    message: str


class Told(_Message):
    """An event of a session, other than sound."""

    session: int
    event: Event


class Alive(_Message):
    """The process runs. ``taken``: samples no more before each session that has heard some."""

    state: State
    taken: dict[int, int]


class Figures(_Message):
    """The engine's figures."""

    figures: dict[str, float]


class Logged(_Message):
    """A line of the process's log; ``level`` as in :mod:`logging`."""

    level: int
    logger: str
    event: str
    fields: dict[str, Any]


ToHost: TypeAlias = Begin | Join | Open | Give | End
FromHost: TypeAlias = Ready | Failed | Opened | Busy | Unavailable | Told | Alive | Figures | Logged
Message: TypeAlias = Audio | ToHost | FromHost


def pack(message: Message) -> bytes:
    """A message as a frame.

    Raises:
        FrameTooLong: it is beyond the bound.
        Unsendable: it holds half a surrogate pair, too large a number, too long a name, or too deep
            a nest.
    """
    try:
        if isinstance(message, Audio):
            return sound(message.session, message.pcm, message.reply.encode())
        body = _encoder.encode(message)
    except (UnicodeError, OverflowError, RecursionError) as error:
        raise Unsendable(f"frame: {type(error).__name__}") from None
    if len(body) > MAX_FRAME:
        raise FrameTooLong(len(body))
    return _HEAD.pack(len(body), 0, 0) + body


def sound(session: int, samples: Sound, reply: bytes = b"") -> bytes:
    """More sound as a frame; see :class:`Audio`.

    Raises:
        FrameTooLong: it is beyond the bound.
        Unsendable: its reply's name is too long.
    """
    body = pcm.to_pcm16(samples)
    size, named = len(reply) + len(body), len(reply)
    if size > MAX_FRAME:
        raise FrameTooLong(size)
    if named > _LONGEST_NAME:
        raise Unsendable(f"reply: expected at most {_LONGEST_NAME} bytes, got {named}")
    return b"".join((_HEAD.pack(size, session, named), reply, body))


class Unpacker:
    """Cuts a stream of bytes into messages; any split of the bytes gives the same ones."""

    def __init__(self, kind: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._names: dict[bytes, str] = {}
        self._rest = b""

    def push(self, data: bytes | memoryview) -> Iterator[Any]:
        """The messages that ``data`` completes; they must all be taken.

        Raises:
            FrameTooLong: a message is beyond the bound.
            msgspec.DecodeError: a message is not what it should be.
        """
        data = self._rest + data
        at, length, head, unpack = 0, len(data), _HEAD.size, _HEAD.unpack_from
        while length - at >= head:
            size, session, named = unpack(data, at)
            if size > MAX_FRAME:
                raise FrameTooLong(size)
            start, end = at + head, at + head + size
            if end > length:
                break
            if not session:
                yield self._decoder.decode(data[start:end])
            elif named:
                begin = start + named
                name = self._named(data[start:begin])
                yield Audio(session, np.frombuffer(data[begin:end], pcm.PCM16), name)
            else:
                yield Audio(session, np.frombuffer(data[start:end], pcm.PCM16))
            at = end
        self._rest = data[at:]

    def _named(self, name: bytes) -> str:
        """A reply's name: of many sessions' replies, who have one name, the same object each time.

        It is compared, and looked up by, at each frame.
        """
        known = self._names.get(name)
        if known is None:
            if len(self._names) == _NAMES:
                self._names.clear()
            known = self._names[name] = name.decode()
        return known


_encoder = msgspec.msgpack.Encoder()
