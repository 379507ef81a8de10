"""Playout that keeps no time of its own. Pure.

:class:`HandedOver` is for clients that take sound as it is made and play it themselves: what they
have heard is estimated from its duration until they say so. :class:`Streamed` is for an engine that
keeps time itself, and a client that wants its stream as it is.
"""

from __future__ import annotations

from collections import deque

from engine.contract import Sound
from server.playout import SECOND, Taken, forget_oldest


class Streamed:
    """Playout of an engine that keeps time itself: its frames leave as they come, silence too."""

    __slots__ = ("_end", "_finished", "_played", "_playing")

    paced = True

    def __init__(self) -> None:
        self._played: dict[str, int] = {}  # of those that have stopped
        self._playing: str | None = None
        self._end = 0
        self._finished = False

    def push(self, reply: str, pcm: Sound, now: int) -> None:
        """Nothing to do: it was passed on."""

    def finish(self, reply: str) -> None:
        self._finished = self._finished or reply == self._playing

    def hold(self) -> None:
        """Such an engine listens while it speaks, and yields by itself."""

    def release(self) -> None:
        """Nothing was held."""

    def cut(self, now: int) -> dict[str, int]:
        return {}

    def played(self, reply: str, now: int) -> int:
        return self._end if reply == self._playing else self._played.get(reply, 0)

    def playing(self, now: int) -> str | None:
        return self._playing

    def pass_on(self, reply: str, pcm: Sound) -> Taken:
        """The engine's next frame, of ``reply`` or, if that is empty, of none."""
        stopped: tuple[str, ...] = ()
        if self._playing and (self._finished or reply != self._playing):
            stopped = (self._playing,)
            self._played[self._playing] = self._end
            forget_oldest(self._played)
            self._playing, self._finished = None, False
        if not reply:
            return Taken(pcm, silent=True, stopped=stopped)
        started: str | None = None
        if self._playing is None:
            started = None if reply in self._played else reply
            self._playing, self._end = reply, self._played.get(reply, 0)
        self._end += len(pcm)
        return Taken(pcm, reply=reply, end=self._end, started=started, stopped=stopped)


class HandedOver:
    """Playout by a client that is sent sound as fast as it is made.

    Its player is taken to start at once and to play without gaps; what it has heard is corrected by
    the client's own report (a truncation), which is the session's business.
    """

    paced = False

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._order: deque[str] = deque()
        self._handed: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._end = 0

    def push(self, reply: str, pcm: Sound, now: int) -> None:
        if reply not in self._handed:
            self._order.append(reply)
        self._handed[reply] = self._handed.get(reply, 0) + len(pcm)
        self._end = max(self._end, now) + len(pcm) * SECOND // self._rate
        self._ends[reply] = self._end

    def finish(self, reply: str) -> None:
        """Nothing to do: the client plays on by itself."""

    def hold(self) -> None:
        """Sound that was handed over cannot be held."""

    def release(self) -> None:
        """Sound that was handed over was not held."""

    def cut(self, now: int) -> dict[str, int]:
        cut = {r: self.played(r, now) for r in self._order if self._ends[r] > now}
        for reply, heard in cut.items():
            self._handed[reply] = heard
            self._ends[reply] = now
        self._end = min(self._end, now)
        return cut

    def played(self, reply: str, now: int) -> int:
        if reply not in self._handed:
            return 0
        unheard = max(0, self._ends[reply] - now) * self._rate // SECOND
        return max(0, self._handed[reply] - unheard)

    def playing(self, now: int) -> str | None:
        while len(self._order) > 1 and self._ends[self._order[0]] <= now:
            gone = self._order.popleft()
            del self._handed[gone], self._ends[gone]
        return next((reply for reply in self._order if self._ends[reply] > now), None)
