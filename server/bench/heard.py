"""What callers hear of a server, on the clock: their own grid, and a player with a buffer. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

BUFFER = 0.12
"""Seconds that a caller's player holds back."""


@dataclass(slots=True, eq=False)
class Heard:
    """What one level's callers heard, while it was counted. Times in seconds."""

    counts: bool = False
    """Whether it is counted now."""
    connecting: list[float] = field(default_factory=list)
    """From connecting to the start of the session."""
    late: list[float] = field(default_factory=list)
    """Of each frame, against its caller's grid."""
    back: list[float] = field(default_factory=list)
    """From saying a piece to hearing it."""
    own_late: list[float] = field(default_factory=list)
    """How late the callers themselves said each piece."""
    underruns: int = 0
    wrong: int = 0
    """Frames of somebody else's sound, or out of order."""
    silent: int = 0
    """Frames of silence after the first of sound."""
    errors: int = 0
    """Events that tell of an error."""
    blocked: int = 0
    """Pieces that could not be said when due, because the server did not read."""
    lost: int = 0
    """Sessions that did not start or did not stay."""


@dataclass(slots=True, eq=False)
class Player:
    """Plays one caller's frames, ``seconds`` long each, from the first one's arrival on.

    It begins :data:`BUFFER` later. Where it has nothing to play it waits, and is behind for good.
    """

    seconds: float
    frames: int = 0
    behind: float = 0.0
    _first: float = 0.0

    def take(self, now: float, heard: Heard) -> None:
        """A frame came."""
        if not self.frames:
            self._first = now
        late = now - self._first - self.frames * self.seconds
        self.frames += 1
        if heard.counts:
            heard.late.append(late)
        if late > BUFFER + self.behind:
            self.behind = late - BUFFER
            heard.underruns += heard.counts
