"""The eleven events of a Realtime client.

``session`` is left as it came: an update is sparse, and only the merge with what holds knows what
it says (:mod:`server.protocol.realtime.session_object`). Keys that are not known are ignored.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from server.protocol.realtime.items import Id, WireItem
from server.protocol.realtime.response_object import ResponseParams


class SessionUpdate(Struct, frozen=True, tag="session.update"):
    session: dict[str, Any]


class InputAudioBufferAppend(Struct, frozen=True, tag="input_audio_buffer.append"):
    """``audio`` is base64 on the wire."""

    audio: bytes


class InputAudioBufferCommit(Struct, frozen=True, tag="input_audio_buffer.commit"):
    pass


class InputAudioBufferClear(Struct, frozen=True, tag="input_audio_buffer.clear"):
    pass


class OutputAudioBufferClear(Struct, frozen=True, tag="output_audio_buffer.clear"):
    pass


class ItemCreate(Struct, frozen=True, tag="conversation.item.create"):
    """``previous_item_id``: absent or null appends, ``root`` puts the item first."""

    item: WireItem
    previous_item_id: Id | None = None


class ItemRetrieve(Struct, frozen=True, tag="conversation.item.retrieve"):
    item_id: Id


class ItemDelete(Struct, frozen=True, tag="conversation.item.delete"):
    item_id: Id


class ItemTruncate(Struct, frozen=True, tag="conversation.item.truncate"):
    item_id: Id
    content_index: int
    audio_end_ms: int


class ResponseCreate(Struct, frozen=True, tag="response.create"):
    response: ResponseParams | None = None


class ResponseCancel(Struct, frozen=True, tag="response.cancel"):
    response_id: Id | None = None


ClientEvent: TypeAlias = (
    SessionUpdate
    | InputAudioBufferAppend
    | InputAudioBufferCommit
    | InputAudioBufferClear
    | OutputAudioBufferClear
    | ItemCreate
    | ItemRetrieve
    | ItemDelete
    | ItemTruncate
    | ResponseCreate
    | ResponseCancel
)
