"""Coming back: a caller whose connection broke goes on with the same session. Pure.

This is an extension of ours, the same for both protocols. Whoever begins a session is answered with
a token, and who shows it within the time that a lost caller is waited for gets the client's end of
that session on a connection of another. The token names the call, which leads to whoever has it,
and holds 128 random bits; the key that began the session has to be shown with it.

Each answer brings a fresh token. The one that was shown for it stays good until the new connection
shows a sign of life: an answer that is lost on its way must not leave its caller with nothing.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

from server.protocol.event import ServerEvent, encode
from server.replies import new_id

HEADER = "Parley-Resume"
"""Of an answer: the token; of a request: the one that is shown."""
QUERY = "resume"
"""The same, for those who can set no headers. On a WebSocket, whose answer's headers pages cannot
read, it also asks for the token as an event; it may be empty."""
AFTER = "after"
"""Query: the ``event_id`` of the last event that a returning client has."""

GONE = "session_gone"
"""The code of the error where there is no session to come back to."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a session is known by before it begins: its ids, and the first token."""

    session: str
    call: str
    token: str


def ticket(mark: str = "", *, live: bool = False) -> Ticket:
    """A fresh one, ``mark`` in its ids; a GPT-Live session is called by its own id."""
    session = new_id(f"sess{mark}")
    call = session if live else new_id(f"rtc{mark}")
    return Ticket(session, call, _token(call))


def call_of(token: str) -> str:
    """The call that a token names."""
    return token.partition(".")[0]


class Tokens:
    """The tokens that lead back to the session of ``ticket``."""

    def __init__(self, ticket: Ticket) -> None:
        self._call = ticket.call
        self._good: tuple[str, ...] = (ticket.token,)

    def fits(self, shown: str) -> bool:
        """Whether ``shown`` is good now."""
        offered = shown.encode("utf-8", "surrogateescape")
        return any(hmac.compare_digest(offered, token.encode()) for token in self._good)

    @property
    def newest(self) -> str:
        """The token of the newest connection."""
        return self._good[-1]

    def renew(self, shown: str) -> str:
        """A fresh token, for the connection that ``shown`` makes."""
        fresh = _token(self._call)
        self._good = (shown, fresh)
        return fresh

    def spend(self, token: str) -> None:
        """The connection of ``token`` shows a sign of life: if it is the newest, only its own
        token is good from now on.
        """
        if token == self.newest:
            self._good = (token,)


class ResumeToken(ServerEvent, kw_only=True, tag_field="type", tag="parley.resume"):
    """Tells the token where the answer's header cannot be read."""

    token: str


def event_of(token: str) -> bytes:
    """The event that tells ``token``."""
    return encode(ResumeToken(token=token))


def _token(call: str) -> str:
    return f"{call}.{secrets.token_urlsafe(16)}"
