"""What a simulated session makes of the sound it hears: turns, and what they say."""

from __future__ import annotations

from engine.contract import (
    Event,
    Settings,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
    TurnDropped,
    TurnEnded,
)
from engine.simulated.detector import Detector
from engine.simulated.options import Options
from engine.simulated.planner import Said
from engine.simulated.recording import Heard, Recording
from engine.simulated.speech import words

_TURNS = 8
"""Past turns that can still be echoed."""


class Hearing:
    """Finds turns and remembers the last few; judges nothing before settings or half a second."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._rate = options.input_rate
        self._minted = 0
        self._detector = Detector(self._rate, options.threshold, self._mint)
        self._recording = Recording(self._rate)
        self._early: list[Heard] = []
        self._settled = False
        self._detects = self._transcribes = True
        self.turns: dict[str, Said] = {}
        self.ended = 0
        """Turns so far."""

    def apply(self, settings: Settings) -> list[Event]:
        """Listens as ``settings`` say, the sound held back until now first of all."""
        self._transcribes = settings.transcribe
        if settings.turns is not None:
            kind = settings.turns.kind
            self._detects = kind != "none"
            self._detector.prefix_ms = settings.turns.prefix_ms
            patience = settings.turns.silence_ms if kind == "server" else self._options.silence_ms
            self._detector.silence_ms = patience
        else:
            self._detector.silence_ms = self._options.silence_ms
        return self._settle()

    def push(self, heard: Heard) -> list[Event]:
        """What ``heard`` shows."""
        self._recording.append(heard)
        if not self._settled:
            self._early.append(heard)
            return self._settle() if self._recording.end >= self._rate // 2 else []
        return self._judge(heard)

    def commit(self, turn: str) -> list[Event]:
        """Everything since the last turn is ``turn``; one found here is so while it is open."""
        events = self._settle()
        if turn == f"turn_{self._minted}" and turn != self._detector.turn:
            return events
        start, end = self._detector.floor, self._recording.end
        forgotten = self._detector.reset(end)
        events += [event for event in forgotten if event != TurnDropped(turn=turn)]
        if start == end:
            return [*events, TurnDropped(turn=turn)]
        return events + self._ended(TurnEnded(turn=turn, start=start, end=end))

    def clear(self) -> list[Event]:
        """Forgets everything since the last turn."""
        return self._settle() + self._detector.reset(self._recording.end)

    def _settle(self) -> list[Event]:
        self._settled = True
        early, self._early = self._early, []
        return [event for heard in early for event in self._judge(heard)]

    def _judge(self, heard: Heard) -> list[Event]:
        events: list[Event] = []
        if self._detects:
            for event in self._detector.push(heard.at, heard.pcm):
                events += self._ended(event) if isinstance(event, TurnEnded) else [event]
        return events

    def _mint(self) -> str:
        self._minted += 1
        return f"turn_{self._minted}"

    def _ended(self, ended: TurnEnded) -> list[Event]:
        """The turn's end as the script wants it, and what the turn says."""
        self.ended += 1
        script = self._options.transcripts
        text = script[self.ended - 1] if self.ended <= len(script) else f"turn {self.ended}"
        if text == "":
            return [TurnDropped(turn=ended.turn)]
        sound = self._recording.cut(ended.start, ended.end)
        self._recording.forget(ended.end)
        self.turns[ended.turn] = Said(text or "", sound)
        if len(self.turns) > _TURNS:
            del self.turns[next(iter(self.turns))]
        return [ended, *(self._transcript(ended, text) if self._transcribes else ())]

    def _transcript(self, ended: TurnEnded, text: str | None) -> list[Event]:
        turn = ended.turn
        if text is None:
            return [TranscriptFailed(turn=turn, message="the script wants it to fail")]
        parts = words(text)
        seconds = (ended.end - ended.start) / self._rate
        return [
            *(TranscriptDelta(turn=turn, text=part) for part in parts),
            TranscriptCompleted(turn=turn, text="".join(parts), seconds=seconds),
        ]
