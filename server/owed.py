"""What the service owes a caller while it cannot speak: said as soon as the floor is free. Pure."""

from __future__ import annotations

from collections import deque

from server.requests import RequestError

MOST = 16
"""Texts that may wait."""


class Owed:
    """An answer to the latest turn, and texts of the client's own behind it."""

    def __init__(self) -> None:
        self.turn: str | None = None
        """The turn to be answered."""
        self._texts: deque[str] = deque()
        self._cut_short: dict[str, str] = {}

    def add(self, text: str) -> None:
        """Has ``text`` wait to be spoken."""
        if len(self._texts) == MOST:
            message = f"expected at most {MOST} texts that wait to be spoken"
            raise RequestError("too_many_appends", message, "content")
        self._texts.append(text)

    def text(self) -> str | None:
        """The next text, if one waits; it does not any more."""
        return self._texts.popleft() if self._texts else None

    def cut_short(self, turn: str, rest: str | None) -> None:
        """Turn ``turn`` cut a reply (None: there was none) that had ``rest`` still to say."""
        if rest is not None:
            self._cut_short[turn] = rest

    def rest(self, turn: str) -> str | None:
        """What the reply that ``turn`` cut had still to say; None if it cut none. Asked once."""
        return self._cut_short.pop(turn, None)
