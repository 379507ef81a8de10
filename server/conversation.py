"""The conversation: its items, and the context that a model is given of them. Pure.

The session owns the conversation; an engine only ever sees a copy (:meth:`Conversation.messages`).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ItemKind = Literal["message", "function_call", "function_call_output"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class Content(Struct, frozen=True, kw_only=True):
    """One part of a message. ``text`` of a spoken part is its transcript, None until there is one."""

    kind: Literal["text", "audio"]
    text: str | None = None


class Item(Struct, frozen=True, kw_only=True):
    """One entry of the conversation.

    A message has ``role`` and ``content``; a call has ``call_id``, ``name`` and ``arguments`` (JSON
    text); a call's output has ``call_id`` and ``output``. ``turn`` is the engine's turn a spoken user
    message came from.
    """

    id: str
    kind: ItemKind = "message"
    status: ItemStatus = "completed"
    role: Literal["system", "user", "assistant"] = "user"
    content: tuple[Content, ...] = ()
    turn: str | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str = ""
