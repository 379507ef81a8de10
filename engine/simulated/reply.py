"""One reply of a simulated engine, from its start to its one end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from engine.contract import (
    EndReason,
    Event,
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    Respond,
    ToolCall,
    Usage,
)
from engine.simulated.speech import Word


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reply is going to be; ``wait`` seconds pass before it begins."""

    words: Iterable[Word] = ()
    calls: tuple[ToolCall, ...] = ()
    reason: EndReason = "completed"
    message: str = ""
    usage: Usage = field(default_factory=Usage)
    wait: float = 0.0


class Reply:
    """Says a plan, at most ``ahead`` samples ahead of its playout and ``piece`` at a time."""

    def __init__(
        self, order: Respond, plan: Plan, *, put: Callable[[Event], None], ahead: int, piece: int
    ) -> None:
        self._order = order
        self._plan = plan
        self._put = put
        self._ahead = ahead
        self._piece = min(piece, ahead)
        self._sent = self._played = 0
        self._room = asyncio.Event()
        self.ended = False
        put(ReplyStarted(reply=order.reply, turn=order.turn))
        self._task = asyncio.create_task(self._run())

    def played(self, samples: int) -> None:
        """Playout has come to ``samples``."""
        self._played = samples
        self._room.set()

    def cancel(self) -> None:
        """Ends the reply where it is, if it has not ended."""
        self.stop()
        self._end("cancelled")

    def stop(self) -> None:
        """Says nothing more, not even that it has ended."""
        self._task.cancel()

    async def _run(self) -> None:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(self._plan.wait)
        waited = asyncio.get_running_loop().time() - began
        for word in self._plan.words:
            await self._say(word)
        for call in self._plan.calls:
            self._put(call)
        self._end(self._plan.reason, waited)

    async def _say(self, word: Word) -> None:
        reply = self._order.reply
        if self._order.modality == "text":
            self._put(ReplyText(reply=reply, text=word.text))
            return
        end = self._sent + len(word.pcm)
        self._put(ReplyText(reply=reply, text=word.text, start=self._sent, end=end))
        for at in range(0, len(word.pcm), self._piece):
            pcm = word.pcm[at : at + self._piece]
            while self._sent + len(pcm) > self._played + self._ahead:
                self._room.clear()
                await self._room.wait()
            self._sent += len(pcm)
            self._put(ReplyAudio(reply=reply, pcm=pcm))

    def _end(self, reason: EndReason, waited: float = 0.0) -> None:
        if not self.ended:
            self.ended = True
            ended = ReplyEnded(
                reply=self._order.reply,
                reason=reason,
                message=self._plan.message if reason == "failed" else "",
                usage=self._plan.usage,
                timings={"wait": waited},
            )
            self._put(ended)
