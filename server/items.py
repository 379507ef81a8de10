"""What clients may do to the items of a conversation, and how they are refused. Pure."""

from __future__ import annotations

from server.conversation import Conversation, DuplicateItem, Item, UnknownItem
from server.requests import RequestError

MAX_ITEMS = 1000
"""Items kept; beyond it the oldest is deleted."""
TRUNCATE_TOLERANCE_MS = 200
"""A client's clock may run this far ahead of the sound it was sent."""


def create(conversation: Conversation, item: Item, after: str | None) -> str | None:
    """Adds a client's item; returns the id of the item before it."""
    try:
        return conversation.add(item, after)
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


def truncate(
    conversation: Conversation, item_id: str, content_index: int, audio_end_ms: int, rate: int
) -> int:
    """Cuts a spoken reply to ``audio_end_ms``; returns the milliseconds that are left.

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
    conversation.cut(item_id, left_ms * rate // 1000)
    return left_ms


def overflow(conversation: Conversation) -> str | None:
    """The id of the item that has to go, if the conversation is too long."""
    return conversation.items()[0].id if len(conversation) > MAX_ITEMS else None
