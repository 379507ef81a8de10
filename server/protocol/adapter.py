"""What a session's shell asks of a protocol: to begin in it, and to speak it. Pure.

An :class:`Opening` is a session about to begin, as a client asked for it; its :class:`Adapter`
turns the client's events into requests and the session's happenings into events. Each event is made
once, and sent to whoever hears it: the client over its socket or data channel, and sidebands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from msgspec import Struct

from engine.contract import EngineInfo
from server.errors import ServiceError
from server.happenings import Happening
from server.playout import FRAME, Playout
from server.protocol.sound import InputBuffer
from server.protocol.wire import Raw
from server.requests import RequestError, SessionSettings
from server.settings import Names

if TYPE_CHECKING:
    from server.session import Session

Refusal: TypeAlias = RequestError | ServiceError
Place: TypeAlias = Literal["client", "sideband"]
"""Where events come from and go to: whose session it is, or somebody who watches and steers it."""


class Terms(Struct, frozen=True, kw_only=True):
    """What the server offers a session that begins now."""

    info: EngineInfo
    names: Names
    settings: SessionSettings
    """What holds where a client says nothing."""
    expires_at: int | None = None
    """Unix seconds at which the session ends by itself."""
    leg: bool = False
    """Its sound comes and goes by a leg, not in events."""
    frame: float = FRAME
    """Seconds of sound that the leg is handed at a time."""


class Adapter(Protocol):
    """Speaks one protocol for one session."""

    input: InputBuffer
    """The sound that events brought, on its way to the engine."""

    def opening(self, place: Place) -> Sequence[Struct]:
        """What a subscriber hears first."""

    def hear(self, raw: Raw, place: Place) -> bool:
        """Takes an event that appends sound and says no more, as nearly all do; False: it is not
        such a one, or is to be refused.
        """

    def receive(self, raw: Raw, place: Place) -> Sequence[Struct]:
        """Acts on a client's event; returns what only its sender hears, such as an error."""

    def render(self, happening: Happening) -> Sequence[Struct]:
        """What is heard of ``happening``, in order."""

    def hears(self, place: Place, event: Struct) -> bool:
        """Whether ``event``, one that was rendered, is for whoever is at ``place``."""

    def refusal(self, error: Refusal) -> Struct:
        """The error that tells a sender why its event was not taken."""

    def unpack(self, raw: bytes) -> Raw:
        """A long event, read as far as takes time; safe to call in a thread."""


class Opening(Protocol):
    """A session about to begin."""

    @property
    def settings(self) -> SessionSettings:
        """What holds from its first event on."""

    @property
    def live(self) -> bool:
        """Whether its sound is one stream each way, told as it goes, and the engine must take its
        settings before it begins."""

    def playout(self) -> Playout:
        """How its replies sound."""

    def adapter(self, session: Session) -> Adapter:
        """Speaks for it."""
