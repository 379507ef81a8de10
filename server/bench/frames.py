"""What a crowd of callers sends and is sent over WebSockets, as bytes. Pure.

A client library costs a caller more than the server does, so frames are made beforehand and cut out
of the stream by hand (RFC 6455). They are masked with zeros, which a server unmasks like any other.

Each piece of speech begins with a mark of three samples: whose it is and which. An engine that
returns what it hears returns it too, and so it is known what came back, to whom, and how late.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from engine.audio import pcm
from engine.contract import Samples
from server.protocol import event
from server.protocol.live import events as live
from server.protocol.realtime import events as realtime

RATE, FRAME = 24_000, 1920
"""Samples per second, and per piece."""
SECONDS = FRAME / RATE
CLOSE = 0x88
"""First byte of a frame that closes."""
GOODBYE = b"\x88\x82\0\0\0\0\x03\xe8"
"""The frame that closes, by code 1000."""
ERROR = b'{"type":"error"'
"""How an event that tells of one begins."""
PERIOD = 1 << 16
"""Numbers of pieces begin again after so many."""

_MARK = struct.Struct("<HHh")
_TIE = 257
"""The last sample of a mark, so that none is silence."""
_CHARACTERS = 8
_TEXT = 0x81
_DELTA = b'"delta":"'


@dataclass(frozen=True, slots=True)
class Dialect:
    """A protocol as far as a caller speaks it here.

    Args:
        path: of the socket.
        opens: the caller's first event.
        started: the type of the event after which it is heard.
        append: the type of the event that brings sound.
        delta: an event that brings a frame of it back.
    """

    path: str
    opens: str
    started: bytes
    append: str
    delta: msgspec.Struct


_SOUND = event.base64(bytes(range(256)) * (2 * FRAME // 256))
DIALECTS: dict[str, Dialect] = {
    "live": Dialect(
        path="/v1/live/sessions",
        opens=json.dumps({"type": "session.start", "session": {"model": "gpt-live-1"}}),
        started=b"session.started",
        append="session.input_audio.append",
        delta=live.OutputAudioDelta(delta=_SOUND),
    ),
    "realtime": Dialect(
        path="/v1/realtime?model=gpt-realtime",
        opens=json.dumps({"type": "session.update", "session": {"type": "realtime"}}),
        started=b"session.updated",
        append="input_audio_buffer.append",
        delta=realtime.OutputAudioDelta(
            response_id="reply_1",
            item_id="item_0123456789abcdef",
            output_index=0,
            content_index=0,
            delta=_SOUND,
        ),
    ),
}
_SOUNDS = tuple(
    f'{{"type":"{each.delta.__struct_config__.tag}"'.encode() for each in DIALECTS.values()
)


def delta(dialect: Dialect) -> bytes:
    """The text of an event that brings a frame of sound."""
    return event.encode(dialect.delta)


def masked(text: bytes) -> bytes:
    """A client's frame with ``text``."""
    return _head(len(text)) + text


def _head(size: int) -> bytes:
    if size < 126:
        return bytes((_TEXT, 0x80 | size)) + bytes(4)
    return bytes((_TEXT, 0xFE)) + size.to_bytes(2, "big") + bytes(4)


class Message(NamedTuple):
    """A frame that came: its first byte, and where in the data its payload is."""

    first: int
    start: int
    end: int


def messages(data: bytes) -> Iterator[Message]:
    """The whole frames at the beginning of what a server sent."""
    at = 0
    while len(data) - at >= 2:
        start, size = at + 2, data[at + 1]
        if size > 125:
            start = at + (4 if size == 126 else 10)
            size = int.from_bytes(data[at + 2 : start], "big")
        if (end := start + size) > len(data) or start > len(data):
            return
        yield Message(data[at], start, end)
        at = end


class Speech:
    """A recording as events that append it, a piece at a time, over and over."""

    def __init__(self, dialect: Dialect, sound: Samples) -> None:
        whole = np.resize(sound, (max(1, len(sound) // FRAME), FRAME))
        self._tails = [
            base64.b64encode(pcm.to_pcm16(piece[3:])) + b'"}' for piece in whole.astype(np.float32)
        ]
        begin = json.dumps({"type": dialect.append, "audio": ""}).removesuffix('"}').encode()
        self._head = _head(len(begin) + _CHARACTERS + len(self._tails[0])) + begin

    def frame(self, caller: int, number: int) -> bytes:
        """The frame with piece ``number`` of a caller, each of whom begins elsewhere."""
        mark = _MARK.pack(caller, number % PERIOD, _TIE)
        tail = self._tails[(7 * caller + number) % len(self._tails)]
        return b"".join((self._head, binascii.b2a_base64(mark, newline=False), tail))


def is_delta(data: bytes, message: Message) -> bool:
    """Whether an event brings sound."""
    return data.startswith(_SOUNDS, message.start)


def heard(data: bytes, message: Message) -> tuple[int, int] | None:
    """Whose piece a delta begins with, and which; None where that is silence.

    Raises:
        ValueError: it is no delta, or of a sound that nobody said.
    """
    at = data.index(_DELTA, message.start, message.end) + len(_DELTA)
    caller, number, tie = _MARK.unpack(binascii.a2b_base64(data[at : at + _CHARACTERS]))
    if tie != _TIE and (caller, number, tie) != (0, 0, 0):
        raise ValueError("a sound that nobody said")
    return (caller, number) if tie else None
