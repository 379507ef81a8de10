"""The speaking half of a session: the replies that were asked for.

A reply runs at most ``ahead`` seconds beyond what was played of it: a caller who interrupts has
cost little, and the models have time for others. Each reply that started ends once, in any case.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.cascade.reply import Finish, Making, Sound
from engine.cascade.stages import StageError
from engine.contract import (
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    Respond,
    ToolCall,
    ToolUse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.cascade.briefing import Briefing, SaidTurns
    from engine.cascade.chain import Chain
    from engine.cascade.draft import Drafts
    from engine.contract import Event

AT_ONCE = 8
"""Replies of one caller that may be under way; one more fails at once."""


@dataclass(slots=True)
class _Running:
    """A reply under way; ``made`` and ``played`` are output samples."""

    respond: Respond
    made: int = 0
    played: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    timings: dict[str, float] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class Replies:
    """Speaks to one caller.

    Args:
        emit: takes the session's events.
        ahead: seconds a reply may run beyond what was played.
    """

    def __init__(
        self,
        chain: Chain,
        emit: Callable[[Event], None],
        turns: SaidTurns,
        briefing: Briefing,
        drafts: Drafts,
        ahead: float,
    ) -> None:
        self._chain = chain
        self._emit = emit
        self._turns = turns
        self._briefing = briefing
        self._drafts = drafts
        self._ahead = int(ahead * chain.voice.rate)
        self._running: dict[str, _Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> bool:
        """Whether no reply is under way."""
        return not self._running

    def respond(self, respond: Respond) -> None:
        """Starts a reply."""
        self._emit(ReplyStarted(reply=respond.reply, turn=respond.turn))
        if len(self._running) >= AT_ONCE:
            message = f"replies: expected at most {AT_ONCE} at once"
            self._emit(ReplyEnded(reply=respond.reply, reason="failed", message=message))
            return
        running = self._running[respond.reply] = _Running(respond)
        running.task = asyncio.create_task(self._run(running))
        self._tasks.add(running.task)
        running.task.add_done_callback(self._tasks.discard)

    def played(self, reply: str, samples: int) -> None:
        """``samples`` of ``reply`` were played so far."""
        if running := self._running.get(reply):
            running.played = min(samples, running.made)
            running.moved.set()

    def cancel(self, reply: str) -> None:
        """Stops ``reply`` in every stage, if it is under way."""
        if running := self._running.get(reply):
            assert running.task is not None
            running.task.cancel()
            self._end(running, Finish("cancelled"))

    async def close(self) -> None:
        """Cancels every reply."""
        for reply in list(self._running):
            self.cancel(reply)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, running: _Running) -> None:
        making: Making | None = None
        try:
            making = await self._making(running.respond)
            async for piece in making.pieces():
                running.timings |= making.timings
                if isinstance(piece, Sound):
                    await self._speak(running, piece)
                elif isinstance(piece, ToolUse):
                    self._call(running, piece)
                else:
                    self._end(running, piece)
        except Exception as error:
            self._end(running, Finish("failed", f"the engine failed: {type(error).__name__}"))
        finally:
            if making is not None:
                await making.close()

    async def _making(self, respond: Respond) -> Making:
        self._drafts.stop_reading()
        try:
            brief = await self._briefing.of(respond)
        except StageError as error:
            return Making(self._chain, self._briefing.apology(respond), error)
        draft = None if respond.messages is not None else self._drafts.adopt(brief)
        return draft or Making(self._chain, brief)

    async def _speak(self, running: _Running, sound: Sound) -> None:
        reply, pcm, words = running.respond.reply, sound.pcm, list(sound.words)
        while len(pcm):
            room = running.played + self._ahead - running.made
            if room <= 0:
                running.moved.clear()
                await running.moved.wait()
                continue
            self._emit(ReplyAudio(reply=reply, pcm=pcm[:room]))
            self._note_first_sound(running)
            running.made += len(pcm[:room])
            pcm = pcm[room:]
            while words and words[0].start < running.made:
                word = words.pop(0)
                self._emit(ReplyText(reply=reply, text=word.text, start=word.start, end=word.end))
        for word in words:
            self._emit(ReplyText(reply=reply, text=word.text, start=word.start, end=word.end))

    def _note_first_sound(self, running: _Running) -> None:
        said = self._turns.get(running.respond.turn)
        if said is not None and not running.made:
            running.timings |= said.timings
            running.timings["turn_to_audio"] = time.monotonic() - said.spoken_at

    def _call(self, running: _Running, tool: ToolUse) -> None:
        reply = running.respond.reply
        call = ToolCall(reply=reply, call_id=tool.call_id, name=tool.name, arguments=tool.arguments)
        self._emit(call)

    def _end(self, running: _Running, finish: Finish) -> None:
        reply = running.respond.reply
        if self._running.get(reply) is running:
            del self._running[reply]
            self._emit(
                ReplyEnded(
                    reply=reply,
                    reason=finish.reason,
                    message=finish.message,
                    usage=finish.usage,
                    timings=running.timings,
                )
            )
