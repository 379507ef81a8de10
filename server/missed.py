"""What a client that comes back is told of what happened meanwhile. Pure.

A connection breaks some seconds before anybody notices, so what was sent last may never have
arrived. A client that names the last event it has is told everything behind it, as far as that is
kept; another one all since it was missed.
"""

from __future__ import annotations

from collections import deque

from server.protocol.event import run_of

_HERE, _AWAY = (128, 256 * 1024), (1_024, 2 * 1024 * 1024)
_SOUND_HERE, _SOUND_AWAY = (1_024, 1024 * 1024), (2_048, 8 * 1024 * 1024)
"""Events, and bytes of them, that are kept for a client that is there and one that is away;
more where its sound comes in events."""


class Missed:
    """The newest events of a client: few while it is there, more while it is away.

    The oldest go first. With ``sound`` events that carry sound are among them: a client that plays
    the sound itself wants all of it, while sound that has its time is over.
    """

    __slots__ = ("_away", "_bounds", "_here", "_kept", "_left", "_size", "sound")

    def __init__(self, *, sound: bool) -> None:
        self.sound = sound
        """Whether events that carry sound are to be kept, too."""
        self._here, self._away = (_SOUND_HERE, _SOUND_AWAY) if sound else (_HERE, _AWAY)
        self._bounds = self._here
        self._kept: deque[tuple[str, bytes]] = deque()
        self._size = 0
        self._left: str | None = None  # the last event before it was missed

    def leave(self) -> None:
        """The client is away."""
        self._bounds = self._away
        self._left = self._kept[-1][0] if self._kept else ""

    def keep(self, event_id: str, text: bytes) -> None:
        """Takes an event that the client is sent, or would be."""
        self._kept.append((event_id, text))
        self._size += len(text)
        self._trim()

    def tell(self, after: str) -> list[bytes]:
        """The client is back, its last event was ``after``: what it is told, in order."""
        kept, left = self._kept, self._left
        if not (kept and run_of(after) == run_of(kept[-1][0])):
            after = kept[-1][0] if kept and left is None else left or ""
        told = [text for event_id, text in kept if event_id > after]
        self._bounds, self._left = self._here, None
        self._trim()
        return told

    def _trim(self) -> None:
        events, size = self._bounds
        while len(self._kept) > events or self._size > size:
            self._size -= len(self._kept.popleft()[1])
