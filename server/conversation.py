"""The conversation: its items, and the context that a model is given of them. Pure.

The session owns the conversation; an engine only ever sees a copy (:meth:`Conversation.messages`).
What a reply says is kept word by word with the sound that speaks it, so that an interruption leaves
exactly the words whose sound had ended, in the item and in every later context alike.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from engine.contract import Message, Part, Text, ToolUse, Turn

ItemKind = Literal["message", "function_call", "function_call_output"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class Content(Struct, frozen=True, kw_only=True):
    """One part of a message; of a spoken one, ``text`` is the transcript once there is one."""

    kind: Literal["text", "audio"]
    text: str | None = None


class Item(Struct, frozen=True, kw_only=True):
    """One entry of the conversation.

    A message has ``role`` and ``content``; a call has ``call_id``, ``name`` and ``arguments`` (JSON
    text); a call's output has ``call_id`` and ``output``. ``turn`` is the engine's turn that a
    spoken user message came from.
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


class Word(Struct, frozen=True):
    """A piece of a reply's text and the output sample at which its sound has ended."""

    text: str
    end: int


class UnknownItem(LookupError):
    """No item has this id."""


class DuplicateItem(ValueError):
    """An item has this id already."""


class Conversation:
    """The items in order. Every change replaces an item; a reader's copy never moves under it."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._order: list[str] = []
        self._words: dict[str, list[Word]] = {}
        self._sound: dict[str, int] = {}
        self._cut: set[str] = set()

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._items

    @property
    def size(self) -> int:
        """Characters in all items."""
        return sum(map(_size, self._items.values()))

    def items(self) -> tuple[Item, ...]:
        """All items, first to last."""
        return tuple(self._items[item_id] for item_id in self._order)

    def get(self, item_id: str) -> Item:
        """The item of that id, or :class:`UnknownItem`."""
        try:
            return self._items[item_id]
        except KeyError:
            raise UnknownItem(item_id) from None

    def previous(self, item_id: str) -> str | None:
        """The id of the item before it, or None for the first."""
        place = self._order.index(self.get(item_id).id)
        return self._order[place - 1] if place else None

    def add(self, item: Item, after: str | None = None) -> str | None:
        """Puts ``item`` behind the item ``after`` (None: last; ``root``: first).

        Returns the id of the item before it. Raises :class:`DuplicateItem`, :class:`UnknownItem`.
        """
        if item.id in self._items:
            raise DuplicateItem(item.id)
        if after is None:
            place = len(self._order)
        elif after == "root":
            place = 0
        else:
            place = self._order.index(self.get(after).id) + 1
        self._items[item.id] = item
        self._order.insert(place, item.id)
        return self._order[place - 1] if place else None

    def delete(self, item_id: str) -> None:
        """Takes the item out."""
        del self._items[self.get(item_id).id]
        self._order.remove(item_id)
        self._words.pop(item_id, None)
        self._sound.pop(item_id, None)
        self._cut.discard(item_id)

    def transcribe(self, item_id: str, text: str) -> Item:
        """Gives a spoken user message its transcript."""
        return self._replace(item_id, content=(Content(kind="audio", text=text),))

    def speak(self, item_id: str, text: str, end: int) -> None:
        """Appends words to a reply's message; their sound ends at output sample ``end``.

        Of a message that was cut nothing more is heard, so it keeps what the cut left.
        """
        item = self.get(item_id)
        self._words.setdefault(item_id, []).append(Word(text, end))
        if item_id in self._cut:
            return
        kind = item.content[0].kind if item.content else "audio"
        so_far = (item.content[0].text or "") if item.content else ""
        self._replace(item_id, content=(Content(kind=kind, text=so_far + text),))

    def sound(self, item_id: str, samples: int) -> None:
        """Counts sound made for a reply's message, if it is one of these."""
        if item_id in self._items:
            self._sound[item_id] = self._sound.get(item_id, 0) + samples

    def duration(self, item_id: str) -> int:
        """Output samples made for a reply's message."""
        return self._sound.get(item_id, 0)

    def finish(self, item_id: str, status: ItemStatus) -> Item:
        """Closes an item: nothing is added to it any more. One that was cut stays incomplete."""
        return self._replace(item_id, status="incomplete" if item_id in self._cut else status)

    def cut(self, item_id: str, heard: int) -> Item:
        """Leaves of a spoken reply the words whose sound ended within ``heard`` samples.

        A later cut of the same item counts from all that was said, so an estimate can be corrected.
        """
        kept = "".join(word.text for word in self._words.get(item_id, ()) if word.end <= heard)
        content = (Content(kind="audio", text=kept.rstrip()),)
        self._cut.add(item_id)
        return self._replace(item_id, content=content, status="incomplete")

    def unheard(self, item_id: str, heard: int) -> str:
        """The words of a spoken reply whose sound had not ended within ``heard`` samples."""
        return "".join(w.text for w in self._words.get(item_id, ()) if w.end > heard).strip()

    def messages(self) -> tuple[Message, ...]:
        """The context: caller turns with no heard reply between them are one message."""
        messages: list[Message] = []
        for item in self.items():
            message = _message(item)
            if message is None:
                continue
            last = messages[-1] if messages else None
            if last is not None and _joins(last, message):
                messages[-1] = replace(
                    last,
                    parts=last.parts + message.parts,
                    tool_calls=last.tool_calls + message.tool_calls,
                )
            else:
                messages.append(message)
        return tuple(messages)

    def _replace(self, item_id: str, **changes: object) -> Item:
        item = replace(self.get(item_id), **changes)
        self._items[item_id] = item
        return item


def _size(item: Item) -> int:
    said = sum(len(content.text or "") for content in item.content)
    return said + len(item.arguments) + len(item.output) + len(item.name) + len(item.call_id)


def _message(item: Item) -> Message | None:
    """What a model is told of ``item``; None for one that says nothing (a reply nobody heard)."""
    if item.kind == "function_call":
        use = ToolUse(call_id=item.call_id, name=item.name, arguments=item.arguments)
        return Message(role="assistant", tool_calls=(use,))
    if item.kind == "function_call_output":
        return Message(role="tool", parts=(Text(text=item.output),), call_id=item.call_id)
    parts = tuple(part for content in item.content if (part := _part(item, content)))
    return Message(role=item.role, parts=parts) if parts else None


def _part(item: Item, content: Content) -> Part | None:
    if content.text is None:
        return Turn(turn=item.turn) if item.turn else None
    return Text(text=content.text) if content.text else None


def _joins(last: Message, message: Message) -> bool:
    return last.role == message.role and last.role in ("user", "assistant")
