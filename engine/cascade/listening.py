"""What stands in for the language model and the voice of a cascade that only listens.

Such a cascade loads neither. Where an answer is asked of it all the same, the reply fails and says
why; nothing is weighed by a model, so the melody alone ends turns that are found by meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.cascade.stages import StageError
from engine.turns.machine import RATE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from engine.cascade.stages import Piece, Prompt, Spoken

_WHY = "this engine only listens"


class NoModel:
    """A language model that has nothing to say (:class:`engine.cascade.stages.LanguageModel`)."""

    tools = False
    warms = False

    async def start(self) -> None:
        """There is nothing to load."""

    async def warm(self, prompt: Prompt) -> None:
        """There is nothing to warm."""

    async def ends(self, prompt: Prompt) -> float | None:
        """It cannot tell."""
        return None

    def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """Raises ``StageError``."""
        raise StageError("llm", _WHY)

    async def stop(self) -> None:
        """There is nothing to free."""


class NoVoice:
    """A voice that does not speak (:class:`engine.cascade.stages.Voice`)."""

    rate = RATE
    voices: tuple[str, ...] = ()

    async def start(self) -> None:
        """There is nothing to load."""

    def speak(self, text: str, voice: str) -> AsyncGenerator[Spoken]:
        """Raises ``StageError``."""
        raise StageError("tts", _WHY)

    async def stop(self) -> None:
        """There is nothing to free."""
