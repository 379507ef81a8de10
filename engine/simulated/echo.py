"""An engine that replies by itself: it says what it hears, as it hears it.

A reply spans from the first loud piece to the silence after the last. What would run too far ahead
of playout is left out.
"""

from __future__ import annotations

import numpy as np

from engine.audio.resample import Resampler
from engine.contract import (
    EndReason,
    Event,
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    Samples,
)
from engine.simulated.options import Options


class Echo:
    """The echo of one session."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._resampler = Resampler(options.input_rate, options.output_rate)
        self._patience = options.input_rate * options.silence_ms // 1000
        self._ahead = int(options.ahead * options.output_rate)
        self._reply = ""
        self._muted = False
        self._sent = self._played = self._quiet = 0
        self.replies = 0

    def played(self, reply: str, samples: int) -> None:
        """Playout of ``reply`` has come to ``samples``."""
        if reply == self._reply:
            self._played = samples

    def push(self, pcm: Samples) -> list[Event]:
        """What comes back of the next ``pcm`` heard."""
        sound = self._resampler.push(pcm)
        events = self._follow(pcm)
        if self._reply and self._sent + len(sound) <= self._played + self._ahead:
            self._sent += len(sound)
            events.append(ReplyAudio(reply=self._reply, pcm=sound))
        if self._reply and self._quiet >= self._patience:
            events += self.end("completed")
        return events

    def cancel(self, reply: str) -> list[Event]:
        """Ends ``reply`` if it still runs; the rest of the segment is not said."""
        if not reply or reply != self._reply:
            return []
        self._muted = True
        return self.end("cancelled")

    def end(self, reason: EndReason) -> list[Event]:
        """Ends the reply that runs, if one does."""
        if not self._reply:
            return []
        reply, self._reply = self._reply, ""
        text = ReplyText(reply=reply, text=f"reply {self.replies}", start=0, end=self._sent)
        return [text, ReplyEnded(reply=reply, reason=reason)]

    def _follow(self, pcm: Samples) -> list[Event]:
        """Follows the level; begins a reply where speech begins."""
        loud = float(np.abs(pcm).max(initial=0.0)) >= self._options.threshold
        self._quiet = 0 if loud else self._quiet + len(pcm)
        self._muted = self._muted and self._quiet < self._patience
        if not loud or self._reply or self._muted:
            return []
        self.replies += 1
        self._reply = f"reply_{self.replies}"
        self._sent = self._played = 0
        return [ReplyStarted(reply=self._reply)]
