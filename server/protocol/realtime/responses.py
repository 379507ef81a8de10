"""The events of one response, from its first item to its last, in the order of the API.

A message gets its one content part at once, ``audio`` or ``text`` by the response's modality. What
the deltas said is what ``done`` says, whole; the item beside it says what the conversation keeps,
which after an interruption is less.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.contract import Modality
from server import happenings as happen
from server.conversation import Item
from server.protocol.event import ServerEvent, base64
from server.protocol.realtime import events
from server.protocol.realtime.events import EventPart
from server.protocol.realtime.items import to_wire
from server.protocol.realtime.response_object import OutputShown
from server.protocol.sound import OutputEncoder


@dataclass(slots=True)
class OpenResponse:
    """A response that is being made.

    ``output`` is how it sounds, ``encoder`` None where the sound goes another way than these
    events. ``said`` is what the open message's deltas said so far.
    """

    id: str
    modality: Modality
    out_of_band: bool
    output: OutputShown
    encoder: OutputEncoder | None
    said: list[str] = field(default_factory=list)

    def start_item(self, started: happen.ReplyItemStarted) -> list[ServerEvent]:
        item, index = started.item, started.index
        self.said.clear()
        shown = to_wire(_unwritten(item))
        told: list[ServerEvent] = [
            events.OutputItemAdded(response_id=self.id, output_index=index, item=shown)
        ]
        if not self.out_of_band:
            told.append(events.ItemAdded(item=shown, previous_item_id=started.previous))
        if item.kind == "message":
            told.append(
                events.ContentPartAdded(
                    response_id=self.id, item_id=item.id, output_index=index, part=self._part("")
                )
            )
        return told

    def text(self, more: happen.ReplyText) -> list[ServerEvent]:
        self.said.append(more.text)
        delta = events.OutputTranscriptDelta if self.modality == "audio" else events.OutputTextDelta
        return [
            delta(response_id=self.id, item_id=more.item, output_index=more.index, delta=more.text)
        ]

    def audio(self, more: happen.ReplyAudio) -> list[ServerEvent]:
        sound = self.encoder.push(more.pcm) if self.encoder else b""
        return self._sound(more.item, more.index, sound)

    def end_item(self, ended: happen.ReplyItemEnded) -> list[ServerEvent]:
        item, index = ended.item, ended.index
        told = self._close_message(item, index) if item.kind == "message" else []
        if item.kind == "function_call":
            told += self._arguments(item, index)
        shown = to_wire(item)
        if not self.out_of_band:
            told.append(events.ItemDone(item=shown, previous_item_id=ended.previous))
        told.append(events.OutputItemDone(response_id=self.id, output_index=index, item=shown))
        return told

    def _sound(self, item: str, index: int, sound: bytes) -> list[ServerEvent]:
        if not sound:
            return []
        return [
            events.OutputAudioDelta(
                response_id=self.id, item_id=item, output_index=index, delta=base64(sound)
            )
        ]

    def _close_message(self, item: Item, index: int) -> list[ServerEvent]:
        said = "".join(self.said)
        told: list[ServerEvent] = []
        if self.modality == "audio":
            told += self._sound(item.id, index, self.encoder.flush() if self.encoder else b"")
            told += [
                events.OutputAudioDone(response_id=self.id, item_id=item.id, output_index=index),
                events.OutputTranscriptDone(
                    response_id=self.id, item_id=item.id, output_index=index, transcript=said
                ),
            ]
        else:
            told.append(
                events.OutputTextDone(
                    response_id=self.id, item_id=item.id, output_index=index, text=said
                )
            )
        told.append(
            events.ContentPartDone(
                response_id=self.id, item_id=item.id, output_index=index, part=self._part(said)
            )
        )
        return told

    def _arguments(self, call: Item, index: int) -> list[ServerEvent]:
        return [
            events.FunctionArgumentsDelta(
                response_id=self.id,
                item_id=call.id,
                output_index=index,
                call_id=call.call_id,
                delta=call.arguments,
            ),
            events.FunctionArgumentsDone(
                response_id=self.id,
                item_id=call.id,
                output_index=index,
                call_id=call.call_id,
                name=call.name,
                arguments=call.arguments,
            ),
        ]

    def _part(self, said: str) -> EventPart:
        if self.modality == "audio":
            return EventPart(type="audio", transcript=said)
        return EventPart(type="text", text=said)


def _unwritten(item: Item) -> Item:
    """``item`` before anything of it was made."""
    return Item(
        id=item.id,
        kind=item.kind,
        status="in_progress",
        role=item.role,
        call_id=item.call_id,
        name=item.name,
    )
