"""The caller's side of a session: turns become items, and items get their transcripts. Pure.

Turns have the engine's ids and items the session's. An item's id is fixed when its turn is first
heard of, so that a protocol may announce it while the caller still speaks.
"""

from __future__ import annotations

from collections.abc import Callable

from engine import contract
from engine.contract import Samples
from server import happenings as happen
from server.conversation import Content, Conversation, Item
from server.happenings import Happening
from server.heard import Heard
from server.replies import new_id
from server.requests import RequestError

WAITING = 64
"""Turns that may wait for their transcript; with transcription off none ever comes."""
SHORTEST_COMMIT_MS = 100
"""A client may not make a turn of less."""


class Listening:
    """The turns that are open or wait for their transcript.

    Args:
        conversation: where turns become items.
        tell: hears every happening, in order.
        rate: Hz, of the caller's sound.
        kept: seconds of it that are kept.
    """

    __slots__ = (
        "_cleared", "_conversation", "_ended", "_items", "_lengths", "_places", "_rate",
        "_speaking", "_tell", "committed", "heard", "turn",
    )  # fmt: skip

    def __init__(
        self, conversation: Conversation, tell: Callable[[Happening], None], rate: int, kept: int
    ) -> None:
        self._conversation = conversation
        self._tell = tell
        self._rate = rate
        self._items: dict[str, str] = {}
        self._lengths: dict[str, int] = {}
        self.committed: set[str] = set()
        """Turns that the client committed, and that do not stand yet."""
        self._ended = 0
        self.heard = Heard(kept * rate)
        """Takes the caller's sound."""
        self._places: dict[str, tuple[int, int]] = {}
        self._speaking = False
        self._cleared: str | None = None
        self.turn: str | None = None
        """The turn that has begun and does not stand yet."""

    @property
    def offered(self) -> int:
        """Samples heard since the session began."""
        return self.heard.end

    @property
    def fresh(self) -> bool:
        """Whether there is sound behind the last turn."""
        return self.offered > self._ended

    def sound_of(self, item: str) -> Samples | None:
        """How a turn sounded, or None where it is not kept whole."""
        place = self._places.get(item)
        return place and self.heard.cut(*place)

    def ms(self, samples: int) -> int:
        """Whole milliseconds of the caller's sound."""
        return samples * 1000 // self._rate

    def length_ms(self, turn: str | None) -> int:
        """How long a turn was, until its transcript is complete."""
        return self._lengths.get(turn or "", 0)

    def commit(self, detecting: bool) -> str:
        """The turn that a client's commit ends; ``detecting`` if turns are found for the client.

        Then there is something to commit only while the caller speaks: what was said before is a
        turn already, and behind it lies silence, of which a recogniser makes words.
        """
        heard_ms = self.ms(self.offered - self._ended)
        if detecting and not self._speaking:
            heard_ms = 0
        if heard_ms < SHORTEST_COMMIT_MS:
            raise RequestError(
                "input_audio_buffer_commit_empty",
                f"Error committing input audio buffer: expected at least {SHORTEST_COMMIT_MS}ms "
                f"of audio, but the buffer holds {heard_ms}ms",
            )
        turn = self.turn or new_id("turn")
        self._items.setdefault(turn, new_id("item"))
        self.committed.add(turn)
        return turn

    def idle(self, start: int) -> str:
        """Makes a turn of the silence since sample ``start``."""
        turn, item = new_id("turn"), new_id("item")
        self._items[turn] = item
        start_ms, end_ms = self.ms(start), self.ms(self.offered)
        self._tell(happen.IdleTimedOut(item=item, start_ms=start_ms, end_ms=end_ms))
        return turn

    def clear(self) -> None:
        """Forgets the sound that is not yet a turn."""
        self._ended = self.offered
        if self._speaking:
            self._speaking = False
            self._cleared, self.turn = self.turn, None
        self._tell(happen.InputCleared())

    def speech(self, event: contract.SpeechStarted) -> None:
        """The caller began to speak."""
        self.turn, self._speaking = event.turn, True
        item = self._items.setdefault(event.turn, new_id("item"))
        self._tell(happen.SpeechStarted(item=item, at_ms=self.ms(event.at)))

    def pause(self, event: contract.SpeechStopped) -> None:
        """The caller stopped speaking."""
        if event.turn == self._cleared:
            return
        self._speaking = False
        if item := self._items.get(event.turn):
            self._tell(happen.SpeechStopped(item=item, at_ms=self.ms(event.at)))

    def end(self, event: contract.TurnEnded) -> bool:
        """The turn stands: it is an item now. Returns whether it was found, not committed."""
        item_id = self._items.setdefault(event.turn, new_id("item"))
        self._lengths[event.turn] = self.ms(event.end - event.start)
        while len(self._lengths) > WAITING:
            self._items.pop(eldest := next(iter(self._lengths)), None)
            del self._lengths[eldest]
        self._ended = event.end
        self._close(event.turn)
        self._keep(item_id, event)
        item = Item(id=item_id, content=(Content(kind="audio"),), turn=event.turn)
        previous = self._conversation.add(item)
        self._tell(happen.InputCommitted(item=item_id, previous=previous))
        self._tell(happen.ItemAdded(item=item, previous=previous))
        self._tell(happen.ItemDone(item=item, previous=previous))
        found = event.turn not in self.committed
        self.committed.discard(event.turn)
        return found

    def drop(self, event: contract.TurnDropped) -> None:
        """Nothing was said in it."""
        known = self._items.pop(event.turn, None)
        self.committed.discard(event.turn)
        self._close(event.turn)
        if known and event.turn != self._cleared:
            self._tell(happen.InputCleared())

    def more(self, event: contract.TranscriptDelta) -> None:
        """Part of what the turn says."""
        if item := self._items.get(event.turn):
            self._tell(happen.TranscriptDelta(item=item, text=event.text))

    def transcribed(self, event: contract.TranscriptCompleted | contract.TranscriptFailed) -> None:
        """What the turn says, or that nobody knows; exactly once for each.

        A turn that says nothing was not understood: an empty transcript would look like an answer.
        """
        item = self._items.pop(event.turn, None)
        self._lengths.pop(event.turn, None)
        if item is None:
            return
        text = event.text if isinstance(event, contract.TranscriptCompleted) else ""
        if item in self._conversation:
            self._conversation.transcribe(item, text)
        if isinstance(event, contract.TranscriptFailed):
            self._tell(happen.TranscriptFailed(item=item, message=event.message))
        elif text:
            self._tell(happen.TranscriptCompleted(item=item, text=text, seconds=event.seconds))
        else:
            self._tell(happen.TranscriptFailed(item=item, message="nothing was said"))

    def _close(self, turn: str) -> None:
        """The caller does not speak in it any more; there may be a newer one."""
        if self.turn == turn:
            self.turn, self._speaking = None, False

    def _keep(self, item: str, turn: contract.TurnEnded) -> None:
        """Remembers where a turn's sound lies, and forgets those whose sound is gone."""
        self._places[item] = (turn.start, turn.end)
        for old, (start, _) in tuple(self._places.items()):
            if start >= self.heard.start:
                break
            del self._places[old]
