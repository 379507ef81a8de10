"""Replies out of a stream that never ends.

A model that listens and speaks at once says something at every tick, silence most of the time. A
reply begins with the first frame that can be heard or that has a word, and ends when for a while
no frame had either; that while is part of it. A reply that is cancelled ends at once; the model
talks on, and is not heard until it has paused. Pure.
"""

from __future__ import annotations

import numpy as np

from engine.contract import (
    EndReason,
    Event,
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    Sound,
)


class Segments:
    """The replies of one session.

    Args:
        frame: samples of a tick.
        audible: root mean square from which a frame counts as speech.
        patience: frames of silence that end a reply, at least one.
        ahead: samples that a reply may be ahead of its playout; frames beyond are not said.
    """

    __slots__ = (
        "_ahead", "_audible", "_muted", "_patience", "_played", "_quiet", "_reply", "_sent",
        "_silence", "_words", "replies",
    )  # fmt: skip

    def __init__(self, *, frame: int, audible: float, patience: int, ahead: int) -> None:
        self._silence = np.zeros(frame, np.int16)
        self._audible = audible
        self._patience = patience
        self._ahead = ahead
        self._reply = ""
        self._words = self._muted = False
        self._sent = self._played = self._quiet = 0
        self.replies = 0
        """Begun so far."""

    def silence(self) -> ReplyAudio:
        """A frame of no reply."""
        return ReplyAudio(reply="", pcm=self._silence)

    def push(self, pcm: Sound | None, level: float, text: str) -> list[Event]:
        """What a tick's frame (None: nothing was due) and its words come to, one frame of it.

        Args:
            level: the frame's root mean square.
        """
        if level >= self._audible and pcm is not None and self._reply and not text:
            self._quiet = 0  # So it is most of the time, in the midst of a reply.
            return [self._sound(pcm)]
        loud = pcm is not None and level >= self._audible
        self._quiet = 0 if loud or text else self._quiet + 1
        paused = self._quiet >= self._patience
        self._muted = self._muted and not paused
        events: list[Event] = []
        if (loud or text) and not self._reply and not self._muted:
            events.append(self._start())
        if not self._reply:
            return [*events, self.silence()]
        events += self._say(self._silence if pcm is None else pcm, text)
        if paused:
            events.append(self._end("completed"))
        return events

    def played(self, reply: str, samples: int) -> None:
        """Playout of ``reply`` has come to ``samples``."""
        if reply == self._reply:
            self._played = samples

    def cancel(self, reply: str) -> list[Event]:
        """Ends ``reply`` if it still runs, and is silent until the model pauses."""
        if not reply or reply != self._reply:
            return []
        self._muted = True
        return [self._end("cancelled")]

    def _start(self) -> Event:
        self.replies += 1
        self._reply = f"reply_{self.replies}"
        self._words = False
        self._sent = self._played = 0
        return ReplyStarted(reply=self._reply)

    def _say(self, pcm: Sound, text: str) -> list[Event]:
        start, sound = self._sent, self._sound(pcm)
        events: list[Event] = []
        if not self._words:
            text = text.lstrip()
        if text:
            self._words = True
            events.append(ReplyText(reply=self._reply, text=text, start=start, end=self._sent))
        events.append(sound)
        return events

    def _sound(self, pcm: Sound) -> ReplyAudio:
        """The reply's next frame; silence, where that would be too far ahead of its playout."""
        sent = self._sent + len(pcm)
        if sent > self._played + self._ahead:
            return self.silence()
        self._sent = sent
        return ReplyAudio(reply=self._reply, pcm=pcm)

    def _end(self, reason: EndReason) -> Event:
        reply, self._reply = self._reply, ""
        return ReplyEnded(reply=reply, reason=reason)
