"""The replies of one session: each begins once, has its items in turn, and ends once. Pure.

A reply is written into the conversation as it is made, unless it is out of band. Whatever an engine
still sends of a reply that was ended here finds it gone and is ignored.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from engine.contract import Modality, Sound, ToolCall, Usage
from server.conversation import Content, Conversation, Item, ItemStatus
from server.happenings import (
    Happening,
    Reason,
    ReplyAudio,
    ReplyEnded,
    ReplyItemEnded,
    ReplyItemStarted,
    ReplyStarted,
    ReplyText,
    Status,
)


def new_id(prefix: str) -> str:
    """A fresh id, short enough for clients that allow 32 characters."""
    return f"{prefix}_{secrets.token_hex(12)}"


@dataclass(slots=True)
class Reply:
    """A reply that is being made: its open output ``item`` and the ``outputs`` that are whole.

    ``turn_ms`` is the length of the caller's turn it answers, ``made`` the samples made so far,
    ``sounding`` the message that the latest of them belong to, ``touched`` when (ns) anything last
    came of it.
    """

    id: str
    modality: Modality
    voice: str
    max_tokens: int | None = None
    out_of_band: bool = False
    metadata: dict[str, str] | None = None
    parallel_calls: bool = True
    turn_ms: int = 0
    touched: int = 0
    item: Item | None = None
    outputs: list[Item] = field(default_factory=list)
    made: int = 0
    sounding: Item | None = None


@dataclass(slots=True)
class Outcome:
    """How a reply ended."""

    status: Status
    reason: Reason | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: Usage = field(default_factory=Usage)


class Replies:
    """The replies that have begun and not ended.

    Args:
        conversation: where replies are written.
        tell: hears every happening, in order.
        rate: Hz, of the replies' sound.
        live: their sound is told when it leaves, not here.
    """

    __slots__ = ("_conversation", "_latest", "_live", "_open", "_rate", "_tell")

    def __init__(
        self,
        conversation: Conversation,
        tell: Callable[[Happening], None],
        rate: int,
        *,
        live: bool,
    ) -> None:
        self._conversation = conversation
        self._tell = tell
        self._rate = rate
        self._live = live
        self._open: dict[str, Reply] = {}
        self._latest: Reply | None = None

    def get(self, reply_id: str) -> Reply | None:
        """The reply of an id, while it is being made."""
        latest = self._latest
        if latest is not None and latest.id == reply_id:
            return latest
        return self._open.get(reply_id)

    def all(self) -> tuple[Reply, ...]:
        """All that are being made, the oldest first."""
        return tuple(self._open.values())

    def active(self) -> Reply | None:
        """The one that writes to the conversation."""
        return next((reply for reply in self._open.values() if not reply.out_of_band), None)

    def begin(self, reply: Reply) -> None:
        self._open[reply.id] = self._latest = reply
        self._tell(
            ReplyStarted(
                reply=reply.id,
                modality=reply.modality,
                voice=reply.voice,
                max_tokens=reply.max_tokens,
                out_of_band=reply.out_of_band,
                metadata=reply.metadata,
            )
        )

    def say(self, reply: Reply, text: str, start: int, end: int) -> None:
        """More words; the reply's samples ``start`` to ``end`` speak them."""
        item = self._message(reply)
        if item.id in self._conversation:
            self._conversation.speak(item.id, text, end)
        self._append(reply, item, text)
        index = len(reply.outputs)
        self._tell(
            ReplyText(reply=reply.id, index=index, item=item.id, text=text, start=start, end=end)
        )

    def sound(self, reply: Reply, pcm: Sound) -> None:
        """More sound, of the message that is open then."""
        message = reply.item or self._message(reply)
        if reply.sounding is not message:  # Storing it would touch it, at each frame of each call.
            reply.sounding = message
        reply.made += len(pcm)
        if not self._live:
            self._conversation.sound(message.id, len(pcm))
            self._tell(ReplyAudio(reply.id, len(reply.outputs), message.id, pcm))

    def call(self, reply: Reply, tool: ToolCall) -> None:
        """A tool call, whole: an output item of its own, unless the reply has called enough."""
        called = any(item.kind == "function_call" for item in reply.outputs)
        if called and not reply.parallel_calls:
            return
        self._close_item(reply, "completed")
        self._open_item(
            reply,
            Item(
                id=new_id("item"),
                kind="function_call",
                status="in_progress",
                role="assistant",
                call_id=tool.call_id,
                name=tool.name,
                arguments=tool.arguments,
            ),
        )
        self._close_item(reply, "completed")

    def end(self, reply: Reply, outcome: Outcome) -> None:
        """Ends the reply, its open item with it."""
        del self._open[reply.id]
        if reply is self._latest:
            self._latest = None
        self._close_item(reply, "completed" if outcome.status == "completed" else "incomplete")
        self._tell(
            ReplyEnded(
                reply=reply.id,
                modality=reply.modality,
                voice=reply.voice,
                max_tokens=reply.max_tokens,
                out_of_band=reply.out_of_band,
                metadata=reply.metadata,
                status=outcome.status,
                reason=outcome.reason,
                error_code=outcome.error_code,
                error_message=outcome.error_message,
                output=tuple(reply.outputs),
                usage=outcome.usage,
                heard_ms=reply.turn_ms,
                spoken_ms=reply.made * 1000 // self._rate,
            )
        )

    def _message(self, reply: Reply) -> Item:
        if reply.item is None:
            content = (Content(kind=reply.modality, text=""),)
            item = Item(id=new_id("item"), status="in_progress", role="assistant", content=content)
            self._open_item(reply, item)
        assert reply.item is not None
        return reply.item

    def _append(self, reply: Reply, item: Item, text: str) -> None:
        said = (item.content[0].text or "") + text
        reply.item = replace(item, content=(Content(kind=reply.modality, text=said),))

    def _open_item(self, reply: Reply, item: Item) -> None:
        previous = None if reply.out_of_band else self._conversation.add(item)
        reply.item = item
        self._tell(
            ReplyItemStarted(reply=reply.id, index=len(reply.outputs), item=item, previous=previous)
        )

    def _close_item(self, reply: Reply, status: ItemStatus) -> None:
        if reply.item is None:
            return
        item, reply.item = reply.item, None
        item = replace(item, status=status)
        previous = None
        if item.id in self._conversation:
            self._conversation.finish(item.id, status)
            previous = self._conversation.previous(item.id)
        index = len(reply.outputs)
        reply.outputs.append(item)
        self._tell(ReplyItemEnded(reply=reply.id, index=index, item=item, previous=previous))
