"""The client's events, by the names and fields of ``openai.types.live``; unknown fields are errors.

``event_id`` comes back as ``client_event_id`` in whatever answers the event.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, get_args

from msgspec import Meta, Struct

from server.protocol.wire import convert
from server.requests import RequestError

Content = Annotated[str, Meta(min_length=1, max_length=4_000)]
"""The API's bound is 500 tokens, which are hardly more characters than this in any language."""


class _Event(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all."""

    event_id: Annotated[str, Meta(max_length=512)] | None = None


class SessionStart(_Event, frozen=True, kw_only=True, tag="session.start"):
    session: Any


class SessionUpdate(_Event, frozen=True, kw_only=True, tag="session.update"):
    session: Any


class InputAudioAppend(_Event, frozen=True, kw_only=True, tag="session.input_audio.append"):
    audio: bytes


class InputAudioMute(_Event, frozen=True, kw_only=True, tag="session.input_audio.mute"):
    pass


class InputAudioUnmute(_Event, frozen=True, kw_only=True, tag="session.input_audio.unmute"):
    pass


class _Append(_Event, frozen=True, kw_only=True):
    content: Content
    delegation_id: str | None


class InstructionsAppend(_Append, frozen=True, kw_only=True, tag="session.instructions.append"):
    pass


class ThinkingAppend(_Append, frozen=True, kw_only=True, tag="session.thinking.append"):
    pass


class CommentaryAppend(_Append, frozen=True, kw_only=True, tag="session.commentary.append"):
    pass


class SessionClose(_Event, frozen=True, kw_only=True, tag="session.close"):
    pass


Append: TypeAlias = InstructionsAppend | ThinkingAppend | CommentaryAppend
ClientEvent: TypeAlias = (
    SessionStart
    | SessionUpdate
    | InputAudioAppend
    | InputAudioMute
    | InputAudioUnmute
    | InstructionsAppend
    | ThinkingAppend
    | CommentaryAppend
    | SessionClose
)
_KINDS = frozenset(kind.__struct_config__.tag for kind in get_args(ClientEvent))
UNSUPPORTED = frozenset(
    (
        "session.output_audio.fixture.play",
        "response.create",
        "response.item.create",
        "decision.create",
        "decision.item.create",
        "decision.item.delete",
        "transport.dtmf.send",
    )
)
"""Events of the API that this server refuses by name."""


def event_of(fields: dict[str, Any]) -> ClientEvent:
    """The event that ``fields`` are.

    Raises:
        RequestError: it is none; ``param`` names the field.
    """
    kind = fields.get("type")
    if isinstance(kind, str) and kind in UNSUPPORTED:
        raise RequestError("unsupported", f"'{kind}' is not supported here.", "type")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise RequestError("invalid_event", f"Unknown event type; got {kind!r:.80}.", "type")
    event: ClientEvent = convert(fields, ClientEvent)
    return event


def id_of(fields: dict[str, Any]) -> str | None:
    """What a client calls its event, if it does; errors repeat it even where they refuse it."""
    given = fields.get("event_id")
    return given if isinstance(given, str) and len(given) <= 512 else None
