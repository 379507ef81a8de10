"""What clients may do to the items of a conversation, and how they are refused. Pure."""

from __future__ import annotations

from collections.abc import Callable

from engine.contract import EngineInfo
from server import happenings as happen
from server.conversation import Content, Conversation, DuplicateItem, Item, UnknownItem
from server.happenings import Happening
from server.replies import new_id
from server.requests import RequestError, must_take_text

MAX_ITEMS = 1000
"""Items kept; beyond it the oldest is deleted."""
MAX_TEXT = 512 * 1024
"""Characters kept in all; every change sends the engine the whole conversation."""
TRUNCATE_TOLERANCE_MS = 200
"""A client's clock may run this far ahead of the sound it was sent."""


class Items:
    """The items of a session, as its client may change them.

    Args:
        conversation: holds them.
        tell: hears every happening, in order.
        changed: called after each change.
        info: the engine's facts.
    """

    def __init__(
        self,
        conversation: Conversation,
        tell: Callable[[Happening], None],
        changed: Callable[[], None],
        info: EngineInfo,
    ) -> None:
        self._conversation = conversation
        self._tell = tell
        self._changed = changed
        self._info = info

    def create(self, item: Item, after: str | None = None) -> None:
        """Adds an item behind ``after`` (None: last; ``root``: first)."""
        if item.kind == "message" and not self._info.can.text:
            raise RequestError("invalid_value", "item: this server's model takes no text", "item")
        try:
            previous = self._conversation.add(item, after)
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
        self._tell(happen.ItemAdded(item=item, previous=previous))
        self._tell(happen.ItemDone(item=item, previous=previous))
        self.trim()

    def note(self, text: str) -> None:
        """Tells the model something that is not spoken; it holds from the next reply on."""
        must_take_text(self._info)
        content = (Content(kind="text", text=text),)
        self.create(Item(id=new_id("item"), role="system", content=content))

    def find(self, item_id: str, verb: str = "retrieve") -> Item:
        """The item a client means by ``item_id``; ``verb`` is what it wants to do with it."""
        try:
            return self._conversation.get(item_id)
        except UnknownItem:
            raise RequestError(
                f"item_{verb}_invalid_item_id",
                f"item_id: expected the id of an item, got {item_id!r}",
                "item_id",
            ) from None

    def delete(self, item_id: str) -> None:
        """Takes an item out."""
        self._delete(self.find(item_id, "delete").id)
        self._changed()

    def truncate(self, item_id: str, content_index: int, audio_end_ms: int) -> None:
        """Leaves of a spoken reply what was heard: the client's word, which corrects our estimate.

        A little more than was made counts as all of it: the clocks of two machines never agree.
        """
        item = self.find(item_id, "truncate")
        spoken = item.role == "assistant" and item.content and item.content[0].kind == "audio"
        if item.kind != "message" or not spoken:
            raise RequestError(
                "invalid_value", "item_id: expected an assistant message with audio", "item_id"
            )
        if content_index != 0:
            raise RequestError(
                "invalid_value", f"content_index: expected 0, got {content_index}", "content_index"
            )
        made = self._conversation.duration(item_id)
        made_ms = made * 1000 // self._info.output_rate
        if not 0 <= audio_end_ms <= made_ms + TRUNCATE_TOLERANCE_MS:
            raise RequestError(
                "invalid_value",
                f"Audio content of {made_ms}ms is already shorter than {audio_end_ms}ms",
                "audio_end_ms",
            )
        left_ms = min(audio_end_ms, made_ms)
        whole = audio_end_ms >= made_ms  # whose last fraction of a millisecond counts
        self._conversation.cut(item_id, made if whole else left_ms * self._info.output_rate // 1000)
        self._tell(happen.ItemTruncated(item=item_id, audio_end_ms=left_ms))
        self._changed()

    def trim(self) -> None:
        """Takes the oldest out where there are too many, or too much is said in them."""
        while self._too_much():
            self._delete(self._conversation.items()[0].id)
        self._changed()

    def _too_much(self) -> bool:
        items = len(self._conversation)
        return items > MAX_ITEMS or (items > 1 and self._conversation.size > MAX_TEXT)

    def _delete(self, item_id: str) -> None:
        self._conversation.delete(item_id)
        self._tell(happen.ItemDeleted(item=item_id))
