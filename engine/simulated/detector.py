"""Turns by level: whatever peaks above a threshold is speech.

Sound is judged in frames of 10 ms, so that turns do not depend on how it was cut into packets.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.contract import (
    Event,
    Onset,
    OnsetDropped,
    Samples,
    SpeechStarted,
    SpeechStopped,
    TurnDropped,
    TurnEnded,
)

_CONFIRM = 5
"""Loud frames that make an onset speech."""
_GIVE_UP = 10
"""Quiet frames on end after which an onset was none."""


class Detector:
    """Finds turns in sound at ``rate`` Hz; ``mint`` makes their ids."""

    def __init__(self, rate: int, threshold: float, mint: Callable[[], str]) -> None:
        self._frame = rate // 100
        self._threshold = threshold
        self._mint = mint
        self._rest = np.zeros(0, np.float32)
        self._at = 0
        self.silence_ms, self.prefix_ms = 300, 300
        self.floor = 0
        """Where the last turn ended: none begins before it."""
        self._forget()

    @property
    def turn(self) -> str:
        """The turn that is open, or empty."""
        return self._turn

    def _forget(self) -> None:
        self._onset: int | None = None
        self._turn = ""
        self._start = self._loud = self._quiet = 0

    def push(self, at: int, pcm: Samples) -> list[Event]:
        """What ``pcm``, from position ``at`` on, shows. A gap before it is passed over."""
        if at != self._at + len(self._rest):
            self._at, self._rest = at, self._rest[:0]
        sound = np.concatenate([self._rest, pcm])
        whole = len(sound) // self._frame * self._frame
        self._rest = sound[whole:]
        peaks = np.abs(sound[:whole]).reshape(-1, self._frame).max(axis=1, initial=0.0)
        events: list[Event] = []
        for loud in (peaks >= self._threshold).tolist():
            self._at += self._frame
            events += self._step(loud)
        return events

    def reset(self, floor: int) -> list[Event]:
        """Forgets an open turn or onset: its sound, up to ``floor``, went another way."""
        events: list[Event] = []
        if self._turn:
            events = [SpeechStopped(turn=self._turn, at=floor), TurnDropped(turn=self._turn)]
        elif self._onset is not None:
            events = [OnsetDropped()]
        self.floor = floor
        self._forget()
        return events

    def _step(self, loud: bool) -> list[Event]:
        self._quiet = 0 if loud else self._quiet + 1
        self._loud += loud
        if self._turn:
            return self._end() if self._quiet * 10 >= self.silence_ms else []
        if self._onset is None:
            return self._begin() if loud else []
        if self._loud >= _CONFIRM:
            self._turn = self._mint()
            self._start = max(self._onset - self.prefix_ms * self._frame // 10, self.floor)
            return [SpeechStarted(turn=self._turn, at=self._start)]
        if self._quiet >= _GIVE_UP:
            self._forget()
            return [OnsetDropped()]
        return []

    def _begin(self) -> list[Event]:
        self._onset, self._loud = self._at - self._frame, 1
        return [Onset(at=self._onset)]

    def _end(self) -> list[Event]:
        turn, start, self.floor = self._turn, self._start, self._at
        self._forget()
        return [
            SpeechStopped(turn=turn, at=self._at),
            TurnEnded(turn=turn, start=start, end=self._at),
        ]
