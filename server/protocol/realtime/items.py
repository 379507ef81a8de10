"""Conversation items as they stand on the wire, and to and from the session's own.

One set of structs serves both ways: what a client creates and what the server announces. The part
types here (``input_text``, ``output_audio``...) are those of items; content-part *events* have
their own two (``audio``, ``text``), see :mod:`server.protocol.realtime.events`.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from server.conversation import Content, Item, ItemStatus
from server.protocol import bounds
from server.protocol.realtime.session_object import Name
from server.replies import new_id
from server.requests import RequestError

Id = Annotated[str, Meta(min_length=1, max_length=128)]


class InputText(Struct, frozen=True, tag="input_text"):
    text: str


class InputAudio(Struct, frozen=True, tag="input_audio"):
    """``transcript`` is always written, null until it is known: clients fail on a missing key."""

    transcript: str | None = None
    audio: str | UnsetType = UNSET


class OutputText(Struct, frozen=True, tag="output_text"):
    text: str


class OutputAudio(Struct, frozen=True, tag="output_audio"):
    transcript: str | None = None


Part: TypeAlias = InputText | InputAudio | OutputText | OutputAudio


class Message(Struct, frozen=True, kw_only=True, tag="message"):
    id: Id | UnsetType = UNSET
    object: Literal["realtime.item"] = "realtime.item"
    status: ItemStatus = "completed"
    role: Literal["system", "user", "assistant"]
    content: Annotated[list[Part], Meta(max_length=bounds.PARTS)]


class FunctionCall(Struct, frozen=True, kw_only=True, tag="function_call"):
    id: Id | UnsetType = UNSET
    object: Literal["realtime.item"] = "realtime.item"
    status: ItemStatus = "completed"
    call_id: Id | UnsetType = UNSET
    name: Name
    arguments: str


class FunctionCallOutput(Struct, frozen=True, kw_only=True, tag="function_call_output"):
    id: Id | UnsetType = UNSET
    object: Literal["realtime.item"] = "realtime.item"
    status: ItemStatus = "completed"
    call_id: Id
    output: str


class ItemReference(Struct, frozen=True, tag="item_reference"):
    """An item of the conversation, by its id (only in a response's ``input``)."""

    id: Id


WireItem: TypeAlias = Message | FunctionCall | FunctionCallOutput

_PARTS = {
    "system": (InputText,),
    "user": (InputText, InputAudio),
    "assistant": (OutputText,),
}


def to_wire(item: Item, *, transcripts: bool = True) -> WireItem:
    """``item`` as the server shows it; ``transcripts`` False hides what a spoken caller said."""
    if item.kind == "function_call":
        return FunctionCall(
            id=item.id,
            status=item.status,
            call_id=item.call_id,
            name=item.name,
            arguments=item.arguments,
        )
    if item.kind == "function_call_output":
        return FunctionCallOutput(
            id=item.id, status=item.status, call_id=item.call_id, output=item.output
        )
    hidden = item.turn is not None and not transcripts
    content = [_part(item.role, part, hidden) for part in item.content]
    return Message(id=item.id, status=item.status, role=item.role, content=content)


def _part(role: str, part: Content, hidden: bool) -> Part:
    if role == "assistant":
        if part.kind == "audio":
            return OutputAudio(transcript=part.text or "")
        return OutputText(text=part.text or "")
    if part.kind == "audio":
        return InputAudio(transcript=None if hidden else part.text)
    return InputText(text=part.text or "")


def with_audio(part: Part, audio: str) -> Part:
    """A caller's part with how it sounded, base64."""
    return replace(part, audio=audio) if isinstance(part, InputAudio) else part


def from_wire(item: WireItem, at: str) -> Item:
    """The item a client wants, with an id of ours where it gave none; ``at`` is its dotted path.

    Raises:
        RequestError: there is too much of it, or a part does not belong to the role, or brings
            sound, which only the input buffer takes.
    """
    ident = new_id("item") if item.id is UNSET else item.id
    if isinstance(item, FunctionCall):
        bounds.check_text(item.arguments, bounds.ITEM_TEXT, f"{at}.arguments")
        return Item(
            id=ident,
            kind="function_call",
            role="assistant",
            call_id=new_id("call") if item.call_id is UNSET else item.call_id,
            name=item.name,
            arguments=item.arguments,
        )
    if isinstance(item, FunctionCallOutput):
        bounds.check_text(item.output, bounds.TOOL_OUTPUT, f"{at}.output")
        return Item(id=ident, kind="function_call_output", call_id=item.call_id, output=item.output)
    content = tuple(
        _content(item.role, part, f"{at}.content[{index}]")
        for index, part in enumerate(item.content)
    )
    text = "".join(part.text or "" for part in content)
    bounds.check_text(text, bounds.ITEM_TEXT, f"{at}.content")
    return Item(id=ident, role=item.role, content=content)


def _content(role: str, part: Part, at: str) -> Content:
    if not isinstance(part, _PARTS[role]):
        allowed = " or ".join(str(kind.__struct_config__.tag) for kind in _PARTS[role])
        got = part.__struct_config__.tag
        raise RequestError(
            "invalid_value",
            f"Invalid '{at}.type': expected {allowed} for role '{role}', got {got}.",
            f"{at}.type",
        )
    if isinstance(part, InputAudio):
        if part.transcript is None:
            raise RequestError(
                "invalid_value",
                f"Invalid '{at}': an item takes sound only as its transcript; "
                "send the sound with input_audio_buffer.append.",
                f"{at}.transcript",
            )
        return Content(kind="audio", text=part.transcript)
    assert not isinstance(part, OutputAudio)
    return Content(kind="text", text=part.text)
