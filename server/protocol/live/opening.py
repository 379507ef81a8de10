"""How a live session begins: its configuration, and the settings that it stands for. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from engine.contract import TurnDetection
from server.playout import Paced, Playout
from server.protocol.live.adapter import LiveAdapter
from server.protocol.live.config import (
    Audio,
    Config,
    CustomVoice,
    Delegation,
    Output,
    Pcm,
    Resource,
)
from server.protocol.live.delegation import DELEGATE
from server.protocol.names import LocalNames
from server.requests import RequestError, SessionSettings
from server.unpaced import Streamed

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.contract import EngineInfo
    from server.protocol.adapter import Terms
    from server.session import Session

SOCKET_FRAME = 0.04
"""Seconds per frame over a socket: what a reply's first sound waits for, half of it on average."""


class Opening(Struct, frozen=True):
    """A session about to begin: as the client sees it, and as the session takes it."""

    config: Config
    shown: Resource
    settings: SessionSettings
    terms: Terms
    event_id: str | None
    live = True

    def playout(self) -> Playout:
        """See ``Opening``: an engine that keeps time is passed on; else silence fills the gaps.

        A leg needs even frames, whoever keeps the time.
        """
        info = self.terms.info
        if info.tick is not None and not self.terms.leg:
            return Streamed()
        seconds = self.terms.frame if self.terms.leg else SOCKET_FRAME
        frame = round(seconds * info.output_rate)
        return Paced(info.output_rate, frame, fill=True, real_time=info.real_time)

    def adapter(self, session: Session) -> LiveAdapter:
        """See ``Opening``."""
        for message in self.config.input:
            session.conversation.add(message.item())
        return LiveAdapter(session, self.shown, self.event_id, leg=self.terms.leg)


def wanted(config: Config, event_id: str | None = None) -> Callable[[str, Terms], Opening]:
    """Opens the session of a request, or of the event ``event_id``, once id and terms are known.

    It raises RequestError where the session cannot be.
    """

    def open_(id: str, terms: Terms) -> Opening:
        info = terms.info
        if config.input and not _takes_text(info):
            at = "session.input"
            raise RequestError("unsupported", f"'{at}': this server's model takes no text.", at)
        names = LocalNames(terms.names, info, config.model)
        name = _voice(config)
        instructions = config.instructions or ""
        settings = SessionSettings(
            instructions=(instructions.strip() and instructions) or terms.settings.instructions,
            voice=names.voice(name, "session.audio.output.voice") if name else "",
            turns=TurnDetection(kind="semantic"),
            tools=(DELEGATE,) if info.can.tools else (),
            real_time=terms.settings.real_time,
        )
        shown = _shown(config, settings, id, terms, name or names.local_voice(""))
        return Opening(config, shown, settings, terms, event_id)

    return open_


def _takes_text(info: EngineInfo) -> bool:
    return info.replies == "when_told" and info.can.text


def _voice(config: Config) -> str:
    voice = config.audio.output.voice
    if isinstance(voice, CustomVoice):
        return voice.id
    return "" if voice is UNSET else voice


def _shown(
    config: Config, settings: SessionSettings, id: str, terms: Terms, voice: str
) -> Resource:
    format_: Any = config.audio.format
    if format_ is UNSET and not terms.leg:
        format_ = Pcm()
    return Resource(
        id=id,
        expires_at=terms.expires_at or 0,
        model=config.model,
        audio=Audio(format=format_, output=Output(voice=voice or UNSET)),
        delegation=config.delegation or Delegation(),
        instructions=settings.instructions,
        input=config.input or UNSET,
        client=config.client or UNSET,
        safety_identifier=config.safety_identifier or UNSET,
    )
