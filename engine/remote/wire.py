"""What passes between a server and an engine in a process of its own.

Frames over one stream socket: four bytes of length, little-endian, and a msgpack message. A message
is one of the structs below; orders and events travel inside as the contract has them, and sound as
16-bit little-endian samples. Everything is in one order per direction.

The socket is inherited, and both ends run the same code on one machine: nothing here defends
against a stranger. The bound on a frame catches a bug before it takes the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct

from engine.audio import pcm
from engine.contract import EngineError, EngineInfo, Event, Order, Sound, State

MAX_FRAME = 64 << 20
"""Bytes of a message, at most."""
_HEAD = 4


class Unsendable(EngineError):
    """A message cannot pass."""


class FrameTooLong(Unsendable):
    """A message is beyond the bound."""

    def __init__(self, size: int) -> None:
        super().__init__(f"frame: expected at most {MAX_FRAME} bytes, got {size}")


class _Message(Struct, array_like=True, tag=True):
    """Base of all messages."""


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


class Hear(_Message):
    """Sound for a session."""

    session: int
    pcm: Sound


class Give(_Message):
    """An order for a session."""

    session: int
    order: Order


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
    """An event of a session."""

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


ToHost: TypeAlias = Begin | Join | Open | Hear | Give
FromHost: TypeAlias = Ready | Failed | Opened | Busy | Unavailable | Told | Alive | Figures | Logged


def pack(message: ToHost | FromHost) -> bytes:
    """A message as a frame.

    Raises:
        FrameTooLong: it is beyond the bound.
        Unsendable: it holds half a surrogate pair, too large a number, or too deep a nest.
    """
    try:
        body = _encoder.encode(message)
    except (UnicodeError, OverflowError, RecursionError) as error:
        raise Unsendable(f"frame: {type(error).__name__}") from None
    if len(body) > MAX_FRAME:
        raise FrameTooLong(len(body))
    return len(body).to_bytes(_HEAD, "little") + body


class Unpacker:
    """Cuts a stream of bytes into messages; any split of the bytes gives the same ones."""

    def __init__(self, kind: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind, dec_hook=_sound)
        self._rest = b""

    def push(self, data: bytes) -> Iterator[Any]:
        """The messages that ``data`` completes; they must all be taken.

        Raises:
            FrameTooLong: a message is beyond the bound.
            msgspec.DecodeError: a message is not what it should be.
        """
        data = self._rest + data
        view, at = memoryview(data), 0
        while len(data) - at >= _HEAD:
            size = int.from_bytes(view[at : at + _HEAD], "little")
            if size > MAX_FRAME:
                raise FrameTooLong(size)
            end = at + _HEAD + size
            if end > len(data):
                break
            yield self._decoder.decode(view[at + _HEAD : end])
            at = end
        self._rest = data[at:]


def _bytes(thing: Any) -> Any:
    if isinstance(thing, np.ndarray):
        return pcm.to_pcm16(thing)
    raise TypeError(f"cannot travel: {type(thing).__name__}")


def _sound(kind: Any, data: Any) -> Sound:
    return np.frombuffer(data, "<i2")


_encoder = msgspec.msgpack.Encoder(enc_hook=_bytes)
