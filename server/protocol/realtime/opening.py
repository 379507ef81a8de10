"""How a session begins: its object, whole and checked, and the settings that it stands for. Pure.

A client may bring a session object along before there is a session: in the form that makes a call,
bound to an ephemeral secret, or by what a socket's address says. It is as sparse as an update and
is merged into the defaults by the same rules, so that ``session.created`` shows what holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from server.playout import Paced, Playout
from server.protocol.names import LocalNames
from server.protocol.realtime import effect
from server.protocol.realtime.adapter import RealtimeAdapter
from server.protocol.realtime.session_object import SessionObject, merge
from server.requests import RequestError, SessionSettings
from server.unpaced import HandedOver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.contract import EngineInfo
    from server.protocol.adapter import Terms
    from server.session import Session

Kind = Literal["realtime", "transcription"]


class Opening(Struct, frozen=True):
    """A session about to begin: as the client sees it, and as the session takes it."""

    shown: SessionObject
    settings: SessionSettings
    terms: Terms
    live = False

    def playout(self) -> Playout:
        """See ``Opening``: without a leg a client takes sound as it is made, and plays it."""
        info = self.terms.info
        if not self.terms.leg:
            return HandedOver(info.output_rate)
        frame = round(self.terms.frame * info.output_rate)
        return Paced(info.output_rate, frame, real_time=info.real_time)

    def adapter(self, session: Session) -> RealtimeAdapter:
        """See ``Opening``."""
        return RealtimeAdapter(session, self.shown, names=self.terms.names, paced=self.terms.leg)


def open_session(
    given: Mapping[str, Any] | None, terms: Terms, *, id: str, model: str, kind: Kind = "realtime"
) -> Opening:
    """The session that ``given`` asks for; None asks for nothing.

    Args:
        given: a session object, sparse but for its ``type``.
        terms: what holds where ``given`` says nothing.
        id: of the session, ``sess_...``.
        model: the name it was asked for by, echoed; a transcription session has none.
        kind: of the session where ``given`` does not say; ``transcription`` is insisted on.

    Raises:
        RequestError: the session cannot be; ``param`` names the field (``session.audio...``).
    """
    if given is not None and given.get("type") == "transcription":
        kind = "transcription"
    info, defaults, expires_at = terms.info, terms.settings, terms.expires_at
    local = LocalNames(terms.names, info, model)
    if kind == "transcription":
        _check_listens(info)
        plain: SessionObject = effect.transcription_of(defaults, info, id=id, expires_at=expires_at)
    else:
        plain = effect.session_of(defaults, info, id=id, model=model, expires_at=expires_at)
    shown = effect.effective(plain if given is None else merge(plain, given), info)
    return Opening(shown, effect.settings_of(shown, defaults, info, local), terms)


def wanted(
    given: Mapping[str, Any] | None, *, model: str, kind: Kind = "realtime"
) -> Callable[[str, Terms], Opening]:
    """Opens the session of a request once its id and the terms are known."""
    return lambda id, terms: open_session(given, terms, id=id, model=model, kind=kind)


def _check_listens(info: EngineInfo) -> None:
    if info.replies == "by_itself" or not info.can.transcripts:
        raise RequestError(
            "invalid_value",
            "Invalid 'session.type': this server's model cannot only transcribe; "
            "expected 'realtime', got 'transcription'.",
            "session.type",
        )
