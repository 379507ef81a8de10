"""From a client's JSON to typed values, with refusals that a client can act on.

Everything a client sends is decoded here once, bounded in length, depth and number of containers,
and converted to the struct that says what is expected. Decoding is work on the loop that carries
every call's sound, so only sound may be long, and :class:`Appends` reads it in a thread. What does
not fit becomes a :class:`RequestError` whose ``param`` is the field's dotted path, as OpenAI's
errors name it. Serialisers of several languages write whole numbers as ``500.0``; an integral float
is therefore an integer here.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec
import pybase64
from msgspec import UNSET, UnsetType, defstruct

from server.requests import RequestError

MAX_DEPTH = 64
"""Levels of nesting in a client's event; a tool's JSON schema is the deepest thing in one."""

MAX_CONTAINERS = 20_000
"""Objects and arrays in a client's event: making a million bytes of them takes 200 ms."""
EXPECTED = f"a JSON object of at most {MAX_DEPTH} nested levels and {MAX_CONTAINERS} containers"
"""What :func:`decode` takes, but for the length."""

MAX_EVENT = 1024 * 1024
"""Bytes of an event, or characters where it came as text."""
MAX_AUDIO_EVENT = 15 * 1024 * 1024
"""The same of one that appends sound, as OpenAI has it."""
_AUDIO = b'"audio"'
_PIECE = 64 * 1024
"""Characters of base64 changed at once, which no other thread can interrupt."""

Raw: TypeAlias = str | bytes | dict[str, Any]
"""A client's event as it came, or as :meth:`Appends.unpack` gave it."""

_MISSING = re.compile(r"Object missing required field `(.+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")
_EXACT = 2**53
_UNMARKED = bytes(set(range(256)) - set(b'"[{'))


def _number(literal: str) -> float | int:
    value = float(literal)
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


_decoder = msgspec.json.Decoder(float_hook=_number)


class Appends:
    """The event that appends sound: almost every event there is, and the only one that may be long.

    Args:
        kind: its type.
    """

    def __init__(self, kind: str) -> None:
        long = defstruct("Sound", [("audio", str), ("event_id", str | UnsetType, UNSET)], tag=kind)
        self._long: msgspec.json.Decoder[Any] = msgspec.json.Decoder(long)
        name = re.escape(kind.encode())
        self._head = re.compile(rb'{\s*"type"\s*:\s*"%b"\s*,\s*"audio"\s*:\s*"' % name)

    def sound(self, raw: Raw) -> bytes | None:
        """What is appended, if that is said as most clients say it and nothing is said besides;
        None: see what :func:`decode` makes of it.

        Where all between the quotes is base64, it is what JSON would have it be.
        """
        if not isinstance(raw, bytes) or len(raw) > MAX_EVENT or not raw.endswith(b'"}'):
            return None
        head = self._head.match(raw, 0, len(raw) - 2)
        try:
            return head and pybase64.b64decode(raw[head.end() : -2], validate=True)
        except ValueError:
            return None

    def unpack(self, raw: bytes) -> Raw:
        """A long event, its sound as bytes; whatever else is given back as it came.

        JSON of fifteen megabytes would hold the event loop for tens of milliseconds. Here the sound
        is cut out of it and decoded by itself, and this may run in a thread. A text that is not of
        the plainest form is left to :func:`decode`, which refuses it.
        """
        if len(raw) > MAX_AUDIO_EVENT:
            return raw
        start = raw.find(b'"', raw.find(_AUDIO) + len(_AUDIO)) + 1
        end = raw.find(b'"', start)
        rest = raw[:start] + raw[end:]
        if len(rest) > MAX_EVENT:
            return raw
        try:
            event = self._long.decode(rest)
            if event.audio:
                return raw
            fields: dict[str, Any] = msgspec.to_builtins(event)
            sound = pybase64.b64decode(_unescaped(raw[start:end]), validate=True)
            return fields | {"audio": sound}
        except (ValueError, RecursionError):
            return raw


def _fits(value: dict[str, Any]) -> bool:
    """Whether ``value`` is nested no deeper than ``MAX_DEPTH``; looks level by level."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return True
    return False


def _containers(raw: bytes) -> int:
    """How many objects and arrays ``raw`` holds, at most; found without making any of them."""
    count = raw.count(b"[") + raw.count(b"{")
    if count <= MAX_CONTAINERS:
        return count
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = plain.translate(None, _UNMARKED).replace(b'""', b"")
    return sum(map(len, marks.split(b'"')[::2]))


def _unescaped(base64: bytes) -> bytes:
    """``base64`` without the backslash that some serialisers (PHP's) write before each slash."""
    if b"\\" not in base64:
        return base64
    pieces, at = [], 0
    while at < len(base64):
        end = at + _PIECE
        end += base64[end - 1 : end] == b"\\"
        pieces.append(base64[at:end].replace(b"\\/", b"/"))
        at = end
    return b"".join(pieces)


def decode(raw: Raw) -> dict[str, Any]:
    """The JSON object in ``raw``.

    Raises:
        RequestError: ``event_too_large``, or ``invalid_event``: it is no JSON, no object, nested
            too deeply or of too many containers.
    """
    if isinstance(raw, dict):
        return raw
    if len(raw) > MAX_EVENT:
        raise RequestError(
            "event_too_large",
            f"The event is too long: expected at most {MAX_EVENT} bytes, or of one that appends "
            f'sound {MAX_AUDIO_EVENT}, whose first "audio" is its sound, in whole base64; '
            f"got {len(raw)}.",
        )
    try:
        plain = raw.encode() if isinstance(raw, str) else raw
        value = _decoder.decode(plain) if _containers(plain) <= MAX_CONTAINERS else None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise RequestError("invalid_event", f"The event is not valid JSON: {error}.") from None
    except RecursionError:
        value = None
    if not isinstance(value, dict) or not _fits(value):
        raise RequestError("invalid_event", f"The event is not valid: expected {EXPECTED}.")
    return value


def convert(value: Any, kind: Any, at: str = "") -> Any:
    """``value`` as a ``kind``: a type, or a union of them.

    ``at`` is the dotted path of ``value`` in the client's event.

    Raises:
        RequestError: it does not fit; ``param`` names the field.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _refusal(str(error), at) from None


def _refusal(text: str, at: str) -> RequestError:
    """msgspec's ``what - at `$.path` `` as an error of the API."""
    what, marked, where = text.rpartition(" - at ")
    if not marked:
        what, where = text, ""
    path = at + where.partition("$")[2].rstrip("`").replace("[...]", "")
    if missing := _MISSING.fullmatch(what):
        param = f"{path}.{missing[1]}".lstrip(".")
        return RequestError(
            "missing_required_parameter", f"Missing required parameter: '{param}'.", param
        )
    if unknown := _UNKNOWN.fullmatch(what):
        param = f"{path}.{unknown[1]}".lstrip(".")
        return RequestError("unknown_parameter", f"Unknown parameter: '{param}'.", param)
    param = path.lstrip(".")
    what = re.sub("^Invalid (enum )?value", "this server does not know", what)
    what = what[0].lower() + what[1:]
    code = "string_above_max_length" if "`str` of length <=" in what else "invalid_value"
    return RequestError(code, f"Invalid '{param}': {what}.", param)
