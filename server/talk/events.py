"""What this client reads of the server's events: their union, every field optional.

A server's new events and fields are passed over, as OpenAI asks of clients.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct


class Response(Struct, frozen=True):
    id: str = ""
    status: str = ""


class Problem(Struct, frozen=True):
    message: str = ""


class Event(Struct, frozen=True):
    """One server event; ``delta`` is text or base64 sound, as ``type`` has it."""

    type: str
    item_id: str = ""
    content_index: int = 0
    delta: str = ""
    transcript: str = ""
    response: Response = Response()
    error: Problem = Problem()


_decoder = msgspec.json.Decoder(Event)


def parse(text: str) -> Event:
    """Reads an event.

    Raises:
        ValueError: it is none; the message holds nothing of it.
    """
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        raise ValueError("the server sent what is no Realtime event") from None
