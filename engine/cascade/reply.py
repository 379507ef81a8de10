"""A reply in the making: a language model's words, cut into clauses, given a voice.

It is made piece by piece as it is asked for, so whoever takes the pieces sets the pace; only the
model's text is taken as fast as it comes: a model that waits keeps other callers waiting.

What fails is said aloud, as long as there is a voice: a caller cannot see an error message.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import structlog

from engine.cascade.clauses import Clauses
from engine.cascade.stages import Ending, Piece, Prompt, StageError, Word
from engine.contract import EndReason, Modality, Samples, ToolUse, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from engine.cascade.chain import Chain

LOST = "Sorry, I lost my train of thought."
"""Said where a reply breaks off."""
MISHEARD = "Sorry, I didn't catch that."
"""Said where the caller could not be understood because the recogniser failed."""
LONGEST_WORDS = 90
"""Words of a reply: half a minute of speech is the most that anyone listens to."""

log = structlog.get_logger(__name__)

_SILENCE = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class Sound:
    """The next sound of a reply and the words in it, by output samples from the reply's first."""

    pcm: Samples
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The last piece of a reply."""

    reason: EndReason
    message: str = ""
    usage: Usage = field(default_factory=Usage)


ReplyPiece: TypeAlias = Sound | ToolUse | Finish


@dataclass(frozen=True, slots=True)
class Brief:
    """All that decides how a reply turns out; two equal briefs ask for the same reply.

    ``verbatim`` is spoken instead of asking the model.
    """

    prompt: Prompt
    voice: str
    modality: Modality = "audio"
    verbatim: str | None = None


class Making:
    """Makes one reply; its first piece is made at once, the others as they are taken.

    Args:
        error: the reply can only be an apology, for this reason.
    """

    def __init__(self, chain: Chain, brief: Brief, error: StageError | None = None) -> None:
        self.brief = brief
        self.timings: dict[str, float] = {}
        """Seconds by stage: ``llm_first`` (asked, to its first words), ``tts_first`` (a clause's
        text, to its first sound)."""
        self._chain = chain
        self._error = error
        self._at = 0
        self._clauses = 0
        self._pieces = self._make()
        self._first = asyncio.create_task(anext(self._pieces))
        self._first.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def pieces(self) -> AsyncIterator[ReplyPiece]:
        """The reply's pieces, the last a ``Finish``. To be taken once."""
        yield await self._first
        async for piece in self._pieces:
            yield piece

    async def close(self) -> None:
        """Stops the work of all stages."""
        self._first.cancel()
        await asyncio.wait([self._first])
        await self._pieces.aclose()

    async def _make(self) -> AsyncGenerator[ReplyPiece]:
        ending, error = Ending("stop"), self._error
        try:
            if error is None:
                async with aclosing(self._written()) as written:
                    async for piece in written:
                        if isinstance(piece, Ending):
                            ending = piece
                        elif isinstance(piece, ToolUse):
                            yield piece
                        else:
                            async for sound in self._spoken(piece):
                                yield sound
        except StageError as failure:
            error = failure
        if error is None:
            yield Finish("length" if ending.reason == "length" else "completed", "", ending.usage)
            return
        log.warning("reply failed", stage=error.stage, reason=error.for_operator)
        async for sound in self._apology(error):
            yield sound
        yield Finish("failed", str(error), ending.usage)

    async def _apology(self, error: StageError) -> AsyncGenerator[Sound]:
        if error.stage == "tts":
            return
        try:
            async for sound in self._spoken(MISHEARD if error.stage == "stt" else LOST):
                yield sound
        except StageError:
            return

    async def _written(self) -> AsyncGenerator[Piece]:
        """The reply's clauses (a text reply: its text as it comes) and tool calls, and its end."""
        verbatim = self.brief.verbatim
        longest = LONGEST_WORDS if verbatim is None else len(verbatim.split()) + 1
        clauses, empty = Clauses(longest), True
        asked = time.monotonic()
        async with aclosing(_eager(self._text())) as text:
            async for piece in text:
                self.timings.setdefault("llm_first", time.monotonic() - asked)
                for part in self._cut(piece, clauses):
                    empty = empty and isinstance(part, Ending)
                    if empty:
                        raise StageError("llm", "the answer holds nothing to say")
                    yield part
                if clauses.calls:
                    raise StageError("llm", "the answer holds a tool call as text")
                if clauses.full:
                    yield Ending("length")
                    return

    def _cut(self, piece: Piece, clauses: Clauses) -> list[Piece]:
        if not isinstance(piece, str):
            return [*clauses.finish(), piece]
        return [piece] if self.brief.modality == "text" else [*clauses.push(piece)]

    async def _text(self) -> AsyncGenerator[Piece]:
        if self.brief.verbatim is not None:
            yield self.brief.verbatim
            yield Ending("stop")
            return
        async for piece in self._chain.model.stream(self.brief.prompt):
            yield piece

    async def _spoken(self, clause: str) -> AsyncGenerator[Sound]:
        if self.brief.modality == "text":
            yield Sound(_SILENCE, (Word(clause, 0, 0),))
            return
        space = " " if self._clauses else ""
        self._clauses += 1
        asked, first = time.monotonic(), self._at
        async for spoken in self._chain.voice.speak(clause, self.brief.voice):
            self.timings.setdefault("tts_first", time.monotonic() - asked)
            words = tuple(
                Word(word.text, first + word.start, first + word.end) for word in spoken.words
            )
            if words and space:
                words = (Word(space + words[0].text, words[0].start, words[0].end), *words[1:])
                space = ""
            self._at += len(spoken.pcm)
            yield Sound(spoken.pcm, words)


async def _eager(source: AsyncGenerator[Piece]) -> AsyncGenerator[Piece]:
    """``source`` up to its ``Ending``, taken as fast as it comes."""
    queue: asyncio.Queue[Piece | StageError] = asyncio.Queue()

    async def take() -> None:
        try:
            async with aclosing(source):
                async for piece in source:
                    queue.put_nowait(piece)
            queue.put_nowait(StageError("llm", "the answer broke off"))
        except StageError as error:
            queue.put_nowait(error)
        except Exception as error:
            queue.put_nowait(StageError("llm", f"the model failed: {type(error).__name__}"))

    task = asyncio.create_task(take())
    try:
        while True:
            piece = await queue.get()
            if isinstance(piece, StageError):
                raise piece
            yield piece
            if isinstance(piece, Ending):
                return
    finally:
        task.cancel()
        await asyncio.wait([task])
