"""How a GPT-Live session is configured: strictly, once, when it starts.

A field that is not known is an error that names its path, and so is one that this server does not
do: a client must not believe that it got what it did not get. Field by field it is
``openai.types.live.SessionConfig``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from server.conversation import Content, Item
from server.protocol import bounds
from server.protocol.sound import Coding
from server.protocol.wire import convert
from server.replies import new_id
from server.requests import RequestError

HISTORY = 64 * 1024
"""Characters of seeded history: twice what the API's 8,192 tokens come to."""
_KINDS = Meta(max_length=128)
"""Kinds of events that may be allowed by name: more than there are."""


class _Strict(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of what a client configures."""


class Pcm(_Strict, frozen=True, tag="audio/pcm", omit_defaults=False):
    """16-bit little-endian mono."""

    rate: Literal[24000, 16000] = 24000

    @property
    def coding(self) -> Coding:
        return Coding("pcm", self.rate)


class Pcmu(_Strict, frozen=True, tag="audio/pcmu", omit_defaults=False):
    """G.711 mu-law."""

    rate: Literal[8000] = 8000

    @property
    def coding(self) -> Coding:
        return Coding("pcmu", self.rate)


class Pcma(_Strict, frozen=True, tag="audio/pcma", omit_defaults=False):
    """G.711 A-law."""

    rate: Literal[8000] = 8000

    @property
    def coding(self) -> Coding:
        return Coding("pcma", self.rate)


Format: TypeAlias = Pcm | Pcmu | Pcma


class CustomVoice(_Strict, frozen=True):
    id: str


class Output(_Strict, frozen=True):
    voice: str | CustomVoice | UnsetType = UNSET


class Audio(_Strict, frozen=True):
    """``format`` holds both ways, and only over a socket: a call negotiates its own."""

    format: Format | UnsetType = UNSET
    output: Output = Output()


class Delegation(_Strict, frozen=True, tag="client"):
    """Tasks are handed to the client; ``acknowledgement_delay_ms`` is kept and has no effect."""

    acknowledgement_delay_ms: Annotated[int, Meta(ge=0, le=3_600_000)] | UnsetType = UNSET


class Part(_Strict, frozen=True):
    text: str
    type: Literal["input_text", "text", "output_text"] | UnsetType = UNSET


class Message(_Strict, frozen=True):
    """A message of the history that a session begins with."""

    role: Literal["developer", "user", "assistant"]
    content: Annotated[list[Part], Meta(min_length=1, max_length=1)]
    id: str | UnsetType = UNSET
    status: Literal["incomplete", "completed"] | UnsetType = UNSET
    type: Literal["message"] | UnsetType = UNSET

    def __post_init__(self) -> None:
        kinds = ("text", "output_text") if self.role == "assistant" else ("input_text",)
        if self.content[0].type not in (UNSET, *kinds):
            raise ValueError(f"expected a part of type {' or '.join(kinds)}")

    def item(self) -> Item:
        """The conversation's item for it."""
        role = "system" if self.role == "developer" else self.role
        content = (Content(kind="text", text=self.content[0].text),)
        return Item(id=new_id("item"), role=role, content=content)


class EventSelector(_Strict, frozen=True):
    type: str
    response_event: str | UnsetType = UNSET


class DataChannel(_Strict, frozen=True):
    """What may pass a call's data channel; everything, where nothing is said."""

    allowed_client_events: Literal["all"] | Annotated[list[str], _KINDS] | None = None
    allowed_server_events: Literal["all"] | Annotated[list[EventSelector], _KINDS] | None = None

    def takes(self, kind: str) -> bool:
        """Whether the caller may send events of that type."""
        return self.allowed_client_events in (None, "all") or kind in self.allowed_client_events

    def gives(self, kind: str) -> bool:
        """Whether the caller is sent events of that type."""
        allowed = self.allowed_server_events
        return allowed is None or allowed == "all" or any(kind == each.type for each in allowed)


class Client(_Strict, frozen=True):
    data_channel: DataChannel


class Config(_Strict, frozen=True, kw_only=True):
    """A session's configuration as the client gave it."""

    model: Annotated[str, Meta(min_length=1, max_length=128)]
    instructions: str | None = None
    audio: Audio = Audio()
    delegation: Delegation | None = None
    input: Annotated[list[Message], Meta(max_length=128)] = []
    store: bool = False
    client: Client | None = None
    safety_identifier: Annotated[str, Meta(max_length=512)] | None = None
    triggers: list[Any] = []
    idle_timeout_s: int | None = None
    wake_policy: dict[str, Any] | None = None


class Resource(Struct, frozen=True, kw_only=True):
    """A session as its events show it."""

    id: str
    expires_at: int
    model: str
    audio: Audio
    delegation: Delegation
    instructions: str
    status: Literal["active"] = "active"
    store: bool = False
    input: list[Message] | UnsetType = UNSET
    client: Client | UnsetType = UNSET
    safety_identifier: str | UnsetType = UNSET


def config_of(given: Any, *, leg: bool) -> Config:
    """The configuration that a client gave as ``session``; ``leg`` is whether it is a call's.

    Raises:
        RequestError: it cannot be had; ``param`` names the field.
    """
    _check_delegation(given, "session.delegation")
    config: Config = convert(given, Config, "session")
    unsupported = {
        "session.store": config.store,
        "session.triggers": config.triggers,
        "session.idle_timeout_s": config.idle_timeout_s is not None,
        "session.wake_policy": config.wake_policy is not None,
        "session.audio.format": leg and config.audio.format is not UNSET,
        "session.client": not leg and config.client is not None,
    }
    for at, asked in unsupported.items():
        if asked:
            where = "over WebRTC" if at == "session.audio.format" else "here"
            raise RequestError("unsupported", f"'{at}' is not supported {where}.", at)
    if config.instructions:
        bounds.check_text(config.instructions, bounds.INSTRUCTIONS, "session.instructions")
    history = sum(len(message.content[0].text) for message in config.input)
    bounds.check_length(history, HISTORY, "characters in all", "session.input")
    return config


def updated(shown: Delegation, given: Any) -> Delegation:
    """The delegation that an update leaves; all else was settled when the session started.

    Raises:
        RequestError: it would change something else; ``param`` names the field.
    """
    if not isinstance(given, dict):
        raise RequestError("invalid_value", "Invalid 'session': expected an object.", "session")
    for name in given:
        if name not in ("delegation", "triggers"):
            at = f"session.{name}"
            if name in Config.__struct_fields__:
                message = f"'{at}' cannot change once the session has started."
                raise RequestError("immutable_field_update", message, at)
            raise RequestError("unknown_parameter", f"Unknown parameter: '{at}'.", at)
    if given.get("triggers"):
        at = "session.triggers"
        raise RequestError("unsupported", f"'{at}' is not supported here.", at)
    delegation = given.get("delegation")
    if delegation is None:
        return shown
    if isinstance(delegation, dict) and delegation.get("type") in ("responses", "decisions"):
        at = "session.delegation.type"
        raise RequestError("immutable_field_update", f"'{at}' cannot change.", at)
    changed: Delegation = convert(delegation, Delegation, "session.delegation")
    return shown if changed.acknowledgement_delay_ms is UNSET else changed


def _check_delegation(given: Any, at: str) -> None:
    """Refuses by name to hand tasks to anybody but the client."""
    delegation = given.get("delegation") if isinstance(given, dict) else None
    owner = delegation.get("type") if isinstance(delegation, dict) else None
    if owner in ("responses", "decisions"):
        message = f"'{at}.type' {owner!r} is not supported here; expected 'client'."
        raise RequestError("unsupported", message, f"{at}.type")
