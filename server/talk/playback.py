"""Replies' sound on its way to the ear, and how much of each reply was heard. Pure.

Over a WebSocket the server does not know what was played: it sends sound as fast as it is made, and
the client says where it stopped (``conversation.item.truncate``). Counts are samples at one rate.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from engine.contract import Samples

Part = tuple[str, int]
"""A reply's item and the index of its content."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A reply that was stopped, after ``audio_end_ms`` whole milliseconds of it were heard."""

    item_id: str
    content_index: int
    audio_end_ms: int


@dataclass(slots=True)
class _Reply:
    part: Part
    sound: deque[Samples] = field(default_factory=deque)
    received: int = 0
    played: int = 0


class Playback:
    """Plays replies one behind the other.

    Args:
        rate: Hz.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._replies: deque[_Reply] = deque()
        self._stopped: set[Part] = set()
        self._silence = 0
        """Samples of silence since the last of a reply."""

    @property
    def waiting(self) -> int:
        """Samples that are still to be played."""
        return sum(reply.received - reply.played for reply in self._replies)

    def push(self, item_id: str, content_index: int, pcm: Samples) -> None:
        """Adds sound of a reply; what comes late of one that was stopped is dropped."""
        part = (item_id, content_index)
        if part in self._stopped or not len(pcm):
            return
        if not self._replies or self._replies[-1].part != part:
            self._replies.append(_Reply(part))
        self._replies[-1].sound.append(pcm)
        self._replies[-1].received += len(pcm)

    def take(self, samples: int) -> Samples:
        """The next ``samples`` to play, with silence where there is no reply."""
        taken = np.zeros(samples, np.float32)
        at = 0
        while at < samples and (reply := self._sounding()):
            piece = reply.sound.popleft()
            now, later = piece[: samples - at], piece[samples - at :]
            if len(later):
                reply.sound.appendleft(later)
            taken[at : at + len(now)] = now
            at += len(now)
            reply.played += len(now)
            self._silence = 0
        self._silence += samples - at
        return taken

    def stop(self, unheard: int) -> list[Cut]:
        """Forgets what was not heard, and says of which replies that was.

        Args:
            unheard: samples that were taken last and dropped before they sounded. Where they reach
                back into the reply before, that one counts as heard.
        """
        unheard = max(0, unheard - self._silence)
        cuts = []
        for reply in self._replies:
            heard = max(0, reply.played - unheard)
            unheard = 0
            if heard < reply.received:
                cuts.append(Cut(*reply.part, heard * 1000 // self._rate))
        self._stopped = {(cut.item_id, cut.content_index) for cut in cuts}
        self._replies.clear()
        return cuts

    def _sounding(self) -> _Reply | None:
        """The reply that has the next sample; one played out stays until another follows it."""
        while len(self._replies) > 1 and not self._replies[0].sound:
            self._replies.popleft()
        return self._replies[0] if self._replies and self._replies[0].sound else None
