"""Who says what, as lines for a terminal. Pure.

A line is made when its text is complete; what is being said meanwhile is ``running``. Text from a
server may hold anything: what a terminal would act on is taken out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from server.talk.events import Event

Who: TypeAlias = Literal["you", "parley"]

_SPEAKERS: dict[str, tuple[Who, bool]] = {
    "conversation.item.input_audio_transcription.delta": ("you", False),
    "conversation.item.input_audio_transcription.completed": ("you", True),
    "response.output_audio_transcript.delta": ("parley", False),
    "response.output_audio_transcript.done": ("parley", True),
}
"""Whose text an event has, and whether it is complete."""


@dataclass(frozen=True, slots=True)
class Line:
    """A caption; ``who`` None is the client's own remark."""

    who: Who | None
    text: str

    def __str__(self) -> str:
        text = printable(self.text)
        return f"{self.who}: {text}" if self.who else f"({text})"


class Captions:
    """Collects texts."""

    def __init__(self) -> None:
        self._partial: dict[Who, str] = {}

    @property
    def running(self) -> str:
        """What is being said; empty between turns."""
        return "   ".join(str(Line(who, text)) for who, text in self._partial.items())

    def see(self, event: Event) -> list[Line]:
        """The line that an event completes, where it does and says something."""
        if event.type not in _SPEAKERS:
            return []
        who, complete = _SPEAKERS[event.type]
        if not complete:
            self._partial[who] = self._partial.get(who, "") + event.delta
            return []
        self._partial.pop(who, None)
        return [Line(who, event.transcript)] if printable(event.transcript) else []


def printable(text: str) -> str:
    """``text`` on one line, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
