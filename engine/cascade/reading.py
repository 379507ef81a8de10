"""One turn as the recogniser reads it: in part while it is spoken, whole when it pauses.

Everything that is read of a turn belongs to this object, so a reading that comes late can neither
end nor answer another turn.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from engine.cascade.stages import Recognition, StageError
from engine.cascade.transcript import HELD, Transcript
from engine.contract import Samples, TranscriptDelta

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.cascade.stages import Recogniser
    from engine.contract import Event, Settings


class Reading:
    """What turn ``turn`` says, as far as it was read.

    Args:
        settings: say which language is spoken, and how long words wait.
        emit: takes the transcript's deltas.
    """

    def __init__(
        self, turn: str, recogniser: Recogniser, settings: Settings, emit: Callable[[Event], None]
    ) -> None:
        self.turn = turn
        self.seconds = 0.0
        """Seconds that the last whole reading took."""
        self._recogniser = recogniser
        self._language = settings.language
        self._emit = emit
        self._transcript = Transcript(HELD[settings.delay])
        self._before: Recognition | None = None
        self._partial: asyncio.Task[None] | None = None
        self._whole: asyncio.Task[str] | None = None

    def read_part(self, pcm: Samples, then: Callable[[str], None]) -> None:
        """Reads the turn so far, unless it is being read; ``then`` takes what it says."""
        if self._partial is None or self._partial.done():
            self._partial = asyncio.create_task(self._read_part(pcm, then))

    def read_whole(self, pcm: Samples, then: Callable[[str], None] = lambda said: None) -> None:
        """Reads the turn as complete, in place of whatever is being read; ``then`` as above."""
        self.void()
        self._whole = asyncio.create_task(self._read_whole(pcm, then))
        self._whole.add_done_callback(lambda task: task.cancelled() or task.exception())

    def void(self) -> None:
        """The turn goes on: what is being read is not whole."""
        for task in (self._partial, self._whole):
            if task is not None:
                task.cancel()
        self._whole = None

    @property
    def is_read(self) -> bool:
        """Whether the turn was given to be read as complete."""
        return self._whole is not None

    async def read(self) -> None:
        """Returns when the turn was read as complete, or could not be."""
        if self._whole is not None:
            await asyncio.wait([self._whole])

    async def text(self) -> str:
        """What the turn says, once it is read as complete; nothing was said if it holds no words.

        Raises:
            StageError: the recogniser failed.
        """
        assert self._whole is not None
        return await self._whole

    def finish(self, text: str) -> None:
        """Gives out what the deltas lack of ``text``."""
        if rest := self._transcript.finish(text):
            self._emit(TranscriptDelta(turn=self.turn, text=rest))

    async def _read_part(self, pcm: Samples, then: Callable[[str], None]) -> None:
        try:
            read = await self._transcribe(pcm)
        except StageError:
            return  # The whole reading will fail too, and says so.
        if added := self._transcript.partial(read.text):
            self._emit(TranscriptDelta(turn=self.turn, text=added))
        then(read.text)

    async def _read_whole(self, pcm: Samples, then: Callable[[str], None]) -> str:
        began = time.monotonic()
        read = await self._transcribe(pcm)
        self.seconds = time.monotonic() - began
        text = self._transcript.complete(read.text)
        if not any(character.isalnum() for character in text):
            text = ""
        then(text)
        return text

    async def _transcribe(self, pcm: Samples) -> Recognition:
        try:
            self._before = await self._recogniser.transcribe(
                pcm, language=self._language, before=self._before
            )
        except StageError:
            raise
        except Exception as error:
            raise StageError("stt", f"the recogniser failed: {type(error).__name__}") from error
        return self._before
