"""The client's side of a conversation: what each server event makes it play, show and send. Pure.

The server finds the turns. When it says that the caller speaks, whatever is still playing stops,
and the server is told how much of it was heard.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from engine.audio.pcm import from_pcm16
from engine.contract import Samples
from server.talk.captions import Captions, Line
from server.talk.events import Event
from server.talk.playback import Cut, Playback

RATE = 24_000
"""Hz, both ways: the one rate of ``audio/pcm`` in the GA interface."""

_UPDATE = {
    "type": "session.update",
    "session": {
        "type": "realtime",
        "audio": {"input": {"transcription": {"model": "whisper-1"}}},
    },
}
"""Asks for captions of the caller, which may be off."""


class Refused(Exception):
    """The server has no session for this client; the message is the server's."""


@dataclass(frozen=True, slots=True)
class Step:
    """What an event leads to: events to send and lines to show, each in order."""

    send: list[dict[str, Any]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


class Dialogue:
    """One conversation.

    Args:
        silence: drops what the speaker has not sounded yet; returns how many samples that was.

    Attributes:
        playback: where replies wait to be played.
        captions: what is said.
        begun: whether there is a session.
        answered: whether a reply was made to its end; ``failed`` whether the last one was not.
    """

    def __init__(self, silence: Callable[[], int]) -> None:
        self.playback = Playback(RATE)
        self.captions = Captions()
        self.begun = False
        self.answered = False
        self.failed = False
        self._silence = silence
        self._speaking = False
        self._awaited = False
        self._responses: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether the caller speaks, or a reply is due, being made or played."""
        return bool(self._speaking or self._awaited or self._responses or self.playback.waiting)

    def see(self, event: Event) -> Step:
        """Takes an event.

        Raises:
            Refused: it says that there is no session.
            ValueError: it holds sound that cannot be read.
        """
        step = Step(lines=self.captions.see(event))
        match event.type:
            case "session.created":
                self.begun = True
                step.send.append(_UPDATE)
            case "input_audio_buffer.speech_started":
                self._speaking = True
                self._stop(step)
            case "input_audio_buffer.committed":
                self._speaking, self._awaited = False, True
            case "input_audio_buffer.cleared":
                self._speaking = False
            case "response.created":
                self._awaited = False
                self._responses.add(event.response.id)
            case "response.output_audio.delta":
                self.playback.push(event.item_id, event.content_index, _decoded(event.delta))
            case "response.done":
                self._finish(event.response.id, event.response.status, step)
            case "error":
                if not self.begun:
                    raise Refused(event.error.message)
                step.lines.append(Line(None, f"the server says: {event.error.message}"))
        return step

    def _stop(self, step: Step) -> None:
        for cut in self.playback.stop(self._silence()):
            step.send.append(_truncate(cut))
            step.lines.append(Line(None, f"stopped after {cut.audio_end_ms / 1000:.1f} s"))

    def _finish(self, response: str, status: str, step: Step) -> None:
        self._responses.discard(response)
        self.failed = status == "failed"
        if self.failed:
            step.lines.append(Line(None, "the server failed to reply"))
        self.answered = self.answered or status in ("completed", "incomplete")


def append(pcm: bytes) -> dict[str, str]:
    """The event that carries 16-bit sound at ``RATE`` to the server."""
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()}


def _truncate(cut: Cut) -> dict[str, Any]:
    return {
        "type": "conversation.item.truncate",
        "item_id": cut.item_id,
        "content_index": cut.content_index,
        "audio_end_ms": cut.audio_end_ms,
    }


def _decoded(audio: str) -> Samples:
    try:
        return from_pcm16(base64.b64decode(audio, validate=True))
    except (binascii.Error, ValueError):
        raise ValueError("the server sent sound that cannot be read") from None
