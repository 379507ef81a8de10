"""What any protocol may ask of a session, and how the session says no.

A request is a call on :class:`server.session.Session`; these are its arguments. ``ref`` is whatever
the protocol wants back with the answer (an ``event_id``); the session only carries it.
"""

from __future__ import annotations

from msgspec import Struct

from engine.contract import Delay, EngineInfo, Modality, Tool, TurnDetection
from server.conversation import Item


class RequestError(Exception):
    """A request that cannot be met; nothing has changed.

    Args:
        code: machine-readable, stable (``conversation_already_has_active_response``).
        message: who must do what, with expected and got.
        param: the field at fault, dotted, or None.
    """

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


class SessionSettings(Struct, frozen=True, kw_only=True):
    """Everything about a session that a client may set, whole; protocols merge before they ask."""

    instructions: str = ""
    voice: str = ""
    modality: Modality = "audio"
    turns: TurnDetection = TurnDetection()
    replies: bool = True
    """False: the session only listens; nobody is greeted, and no reply will be asked for."""
    create_response: bool = True
    """A turn that ends is answered without being asked."""
    interrupt_response: bool = True
    """A caller who speaks cuts the reply."""
    idle_timeout_ms: int | None = None
    transcribe: bool = True
    """Transcripts of the caller are sent to the client (they are made in any case)."""
    real_time: bool = False
    """The caller's sound comes as it is spoken: no client sets it, a call has it."""
    language: str = ""
    delay: Delay = "low"
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    parallel_calls: bool = True
    """A reply may call more than one tool; what it calls beyond that is left out."""
    max_tokens: int | None = None


class ReplyRequest(Struct, frozen=True, kw_only=True):
    """A reply to be made; None leaves what the session's settings say."""

    out_of_band: bool = False
    """It is not written to the conversation and runs beside others."""
    input: tuple[Item, ...] | None = None
    """Replaces the conversation for this reply alone."""
    instructions: str | None = None
    voice: str | None = None
    modality: Modality | None = None
    tools: tuple[Tool, ...] | None = None
    tool_choice: str | None = None
    parallel_calls: bool | None = None
    max_tokens: int | None = None
    metadata: dict[str, str] | None = None
    verbatim: str | None = None


def must_be_told(info: EngineInfo) -> None:
    """Lets pass what only an engine that replies when told can be asked."""
    if info.replies == "by_itself":
        message = "Invalid 'type': this server's model takes turns and replies by itself"
        raise RequestError("invalid_value", message, "type")


def must_take_text(info: EngineInfo) -> None:
    """Lets pass what only an engine that takes text while a session runs can be asked."""
    if info.replies == "by_itself" or not info.can.text:
        message = "Invalid 'type': this server's model takes no text while it talks"
        raise RequestError("unsupported", message, "type")
