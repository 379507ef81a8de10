"""The timeline of a live session: where on it sound leaves, and which words it speaks. Pure.

It counts samples of the stream that the caller is sent, silence included, from the session's first.
Words are told once the sound that speaks them has begun to leave, so what is cut before it is heard
is never told.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from server.playout import forget_oldest

PAUSE = 500
"""Milliseconds without sound that are a pause of the caller's; less is a network's unevenness."""


class Words(NamedTuple):
    """``text``, spoken from ``start_ms`` to ``end_ms`` of the session."""

    text: str
    start_ms: int
    end_ms: int


class _Prose:
    """Keeps what is said at different times apart: deltas are joined by whoever reads them."""

    def __init__(self) -> None:
        self._of: str | None = None

    def next(self, of: str, text: str) -> str:
        """``text``, the next of reply or item ``of``."""
        apart = self._of not in (None, of) and not text[:1].isspace()
        self._of = of
        return f" {text}" if apart else text


class OutputTimeline:
    """What is said to the caller; ``rate`` is in Hz."""

    __slots__ = ("_position", "_prose", "_rate", "_words")

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._position = 0
        self._prose = _Prose()
        self._words: dict[str, deque[tuple[str, int, int]]] = {}

    @property
    def ms(self) -> int:
        """How far the stream has come."""
        return self._position * 1000 // self._rate

    def say(self, reply: str, text: str, start: int, end: int) -> None:
        """``text`` will be spoken by the samples ``start`` to ``end`` of ``reply``."""
        self._words.setdefault(reply, deque()).append((text, start, end))
        forget_oldest(self._words)  # Of one that fails before it sounds, no end is told.

    def skip(self, samples: int) -> None:
        """``samples`` of silence were not sent in time."""
        self._position += samples

    def advance(self, samples: int, reply: str | None, end: int) -> list[Words]:
        """``samples`` more have left, the last of them being sample ``end`` of ``reply``.

        Returns the words whose sound has begun.
        """
        self._position += samples
        begun: list[Words] = []
        if reply not in self._words:
            return begun
        waiting, first = self._words[reply], self._position - end
        while waiting and waiting[0][1] < max(end, 1):
            text, start, stop = waiting.popleft()
            text = self._prose.next(reply, text)
            begun.append(Words(text, self._ms(first + start), self._ms(first + max(start, stop))))
        return begun

    def rest(self, reply: str) -> list[Words]:
        """All of ``reply`` has left: the words that no sound was named for."""
        here = self.ms
        left = self._words.pop(reply, ())
        return [Words(self._prose.next(reply, text), here, here) for text, _, _ in left]

    def forget(self, reply: str) -> None:
        """``reply`` was cut: nobody hears its other words."""
        self._words.pop(reply, None)

    def _ms(self, samples: int) -> int:
        return max(0, samples) * 1000 // self._rate


class InputTimeline:
    """What the caller says; ``rate`` is in Hz.

    Sound follows sound, unless the caller sent none for a while: then it stands where it came.
    """

    __slots__ = ("_began", "_paused", "_position", "_prose", "_rate", "_stopped", "_told")

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._position = 0
        self._paused = 0
        self._prose = _Prose()
        self._told = 0
        self._began: dict[str, int] = {}
        self._stopped: dict[str, int] = {}

    @property
    def ms(self) -> int:
        """Up to where the caller was heard."""
        return self._position * 1000 // self._rate + self._paused

    def hear(self, samples: int, now: int) -> None:
        """``samples`` more were heard, the last of them by ``now``, in ms of the session."""
        allowed = PAUSE if self._position else 0
        self._position += samples
        here = self._position * 1000 // self._rate + self._paused
        if now - here > allowed:
            self._paused += now - here

    def begin(self, item: str, at_ms: int) -> None:
        """The caller begins to say ``item``, at ``at_ms`` of the sound that was heard."""
        self._began[item] = at_ms + self._paused
        forget_oldest(self._began)

    def stop(self, item: str, at_ms: int) -> None:
        """The caller has said ``item``."""
        self._stopped[item] = at_ms + self._paused
        forget_oldest(self._stopped)

    def words(self, item: str, text: str) -> Words:
        """``text`` of ``item`` was understood: said since the last words, and before now."""
        start = max(self._told, self._began.get(item, 0))
        end = max(start, self._stopped.get(item, self.ms))
        self._told = end
        return Words(self._prose.next(item, text), start, end)
