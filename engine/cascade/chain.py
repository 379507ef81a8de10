"""The models of a cascade, as the engine and its sessions hold them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.cascade.worker import Worker

if TYPE_CHECKING:
    from engine.cascade.stages import LanguageModel, Recogniser, Voice
    from engine.contract import Samples
    from engine.turns.smart_turn import SmartTurn


class SpeechStream(Protocol):
    """A voice activity detector's ear for one caller."""

    def judge(self, chunk: Samples) -> float:
        """The probability, 0..1, that the next 512 samples at 16 kHz are speech; at once."""

    def reset(self) -> None:
        """Forgets what it has heard."""


class SpeechDetector(Protocol):
    """A voice activity detector, shared by all callers."""

    def stream(self) -> SpeechStream:
        """A fresh ear for one caller."""


class TurnJudge(Protocol):
    """An end-of-turn model, shared by all callers."""

    async def judge(self, pcm: Samples) -> float:
        """The probability, 0..1, that the turn is complete after ``pcm`` (16 kHz).

        Raises:
            StageError: the model failed.
        """

    async def stop(self) -> None:
        """Frees what it holds."""


@dataclass(frozen=True, slots=True)
class Chain:
    """From the caller's sound to the reply's."""

    detector: SpeechDetector
    judge: TurnJudge
    recogniser: Recogniser
    model: LanguageModel
    voice: Voice

    async def start(self) -> None:
        """Loads what is not loaded yet.

        Raises:
            StageError: a model cannot be had or does not work.
        """
        await asyncio.gather(self.recogniser.start(), self.model.start(), self.voice.start())

    async def stop(self) -> None:
        """Frees what it holds."""
        for stage in (self.judge, self.recogniser, self.model, self.voice):
            await stage.stop()


class EmbeddedJudge:
    """Smart Turn in a thread of its own (:class:`TurnJudge`)."""

    def __init__(self, model: SmartTurn) -> None:
        self._model = model
        self._worker = Worker("judge")

    async def judge(self, pcm: Samples) -> float:
        """See :class:`TurnJudge`."""
        return await self._worker.run(lambda stopped: self._model.judge(pcm))

    async def stop(self) -> None:
        """Frees what it holds."""
        self._worker.close()
