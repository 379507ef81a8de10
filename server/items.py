"""What clients may do to the items of a conversation, and how they are refused. Pure."""

from __future__ import annotations

from collections.abc import Callable

from server import happenings as happen
from server.conversation import Conversation, DuplicateItem, Item, UnknownItem
from server.happenings import Happening
from server.requests import RequestError

Tell = Callable[[Happening], None]

MAX_ITEMS = 1000
"""Items kept; beyond it the oldest is deleted."""
MAX_TEXT = 512 * 1024
"""Characters kept in all; every change sends the engine the whole conversation."""
TRUNCATE_TOLERANCE_MS = 200
"""A client's clock may run this far ahead of the sound it was sent."""


def create(conversation: Conversation, item: Item, after: str | None, tell: Tell) -> None:
    """Adds a client's item behind ``after`` (None: last; ``root``: first)."""
    try:
        previous = conversation.add(item, after)
    except DuplicateItem:
        raise RequestError(
            "item_create_duplicate_item_id",
            f"item.id: expected an id no item has, got {item.id!r}",
            "item.id",
        ) from None
    except UnknownItem:
        raise RequestError(
            "invalid_value",
            f"previous_item_id: expected 'root' or the id of an item, got {after!r}",
            "previous_item_id",
        ) from None
    tell(happen.ItemAdded(item=item, previous=previous))
    tell(happen.ItemDone(item=item, previous=previous))
    trim(conversation, tell)


def find(conversation: Conversation, item_id: str, verb: str) -> Item:
    """The item a client means by ``item_id``; ``verb`` is what it wants to do with it."""
    try:
        return conversation.get(item_id)
    except UnknownItem:
        raise RequestError(
            f"item_{verb}_invalid_item_id",
            f"item_id: expected the id of an item, got {item_id!r}",
            "item_id",
        ) from None


def delete(conversation: Conversation, item_id: str, tell: Tell) -> None:
    """Takes an item out."""
    conversation.delete(find(conversation, item_id, "delete").id)
    tell(happen.ItemDeleted(item=item_id))


def truncate(
    conversation: Conversation,
    item_id: str,
    content_index: int,
    audio_end_ms: int,
    rate: int,
    tell: Tell,
) -> None:
    """Cuts a spoken reply, of ``rate`` Hz, to ``audio_end_ms``.

    A little more than was made counts as all of it: the clocks of two machines never agree.
    """
    item = find(conversation, item_id, "truncate")
    spoken = item.role == "assistant" and item.content and item.content[0].kind == "audio"
    if item.kind != "message" or not spoken:
        raise RequestError(
            "invalid_value", "item_id: expected an assistant message with audio", "item_id"
        )
    if content_index != 0:
        raise RequestError(
            "invalid_value", f"content_index: expected 0, got {content_index}", "content_index"
        )
    made_ms = conversation.duration(item_id) * 1000 // rate
    if not 0 <= audio_end_ms <= made_ms + TRUNCATE_TOLERANCE_MS:
        raise RequestError(
            "invalid_value",
            f"Audio content of {made_ms}ms is already shorter than {audio_end_ms}ms",
            "audio_end_ms",
        )
    left_ms = min(audio_end_ms, made_ms)
    whole = audio_end_ms >= made_ms  # whose last fraction of a millisecond counts
    heard = conversation.duration(item_id) if whole else left_ms * rate // 1000
    conversation.cut(item_id, heard)
    tell(happen.ItemTruncated(item=item_id, audio_end_ms=left_ms))


def trim(conversation: Conversation, tell: Tell) -> None:
    """Takes the oldest items out where there are too many, or too much is said in them."""
    while len(conversation) > MAX_ITEMS or (len(conversation) > 1 and conversation.size > MAX_TEXT):
        delete(conversation, conversation.items()[0].id, tell)
