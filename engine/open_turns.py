"""Turns that a recogniser has not settled: it owes each an end, and words where it stands. Pure.

Whoever speaks for a recogniser that may be lost has to settle what it leaves open.
"""

from __future__ import annotations

from engine.contract import (
    Applied,
    Event,
    SpeechStarted,
    TranscriptCompleted,
    TranscriptFailed,
    TurnDropped,
    TurnEnded,
)


class OpenTurns:
    """Those of one session."""

    def __init__(self) -> None:
        self._turns: dict[str, bool] = {}
        """Whether the turn has ended, so that only its words are owed."""
        self._found = ""
        self._transcribes = True

    def commit(self, turn: str) -> None:
        """Turn ``turn`` is told to end; of one that was found, that asks nothing new."""
        if turn != self._found:
            self._turns.setdefault(turn, False)

    def take(self, event: Event) -> None:
        """The recogniser's next event."""
        match event:
            case Applied():
                self._transcribes = event.effective.transcribe
                if not self._transcribes:
                    self._turns = {turn: ended for turn, ended in self._turns.items() if not ended}
            case SpeechStarted():
                self._found = event.turn
                self._turns[event.turn] = False
            case TurnEnded() if self._transcribes:
                self._turns[event.turn] = True
            case TurnEnded() | TurnDropped() | TranscriptCompleted() | TranscriptFailed():
                self._turns.pop(event.turn, None)

    def settle(self, message: str) -> list[Event]:
        """Ends every turn: as dropped, or for the reason ``message`` as not transcribed."""
        turns, self._turns = self._turns, {}
        return [
            TranscriptFailed(turn=turn, message=message) if ended else TurnDropped(turn=turn)
            for turn, ended in turns.items()
        ]
