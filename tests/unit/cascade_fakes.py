"""Stages without models, for the cascade's sessions: what they hear and say is agreed beforehand.

The caller's sound is loud where it is speech. The recogniser finds one word per ``WORD`` of it, the
voice takes ``SPOKEN_WORD`` for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import numpy as np

from engine.cascade.chain import Chain
from engine.cascade.stages import Ending, Piece, Prompt, Recognition, Spoken, StageError, Word
from engine.contract import Samples, Text

RATE = 16_000
WORD = RATE // 4
VOICE_RATE = 24_000
SPOKEN_WORD = VOICE_RATE // 10


def speech(words: int) -> Samples:
    return np.full(words * WORD, 0.5, np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(int(seconds * RATE), np.float32)


class Loudness:
    """A detector for which loud is speech."""

    def stream(self) -> Loudness:
        return self

    def judge(self, chunk: Samples) -> float:
        return 0.99 if np.abs(chunk).max() > 0.1 else 0.01

    def reset(self) -> None:
        pass


@dataclass
class FakeJudge:
    probability: float = 0.9

    async def judge(self, pcm: Samples) -> float:
        return self.probability

    async def stop(self) -> None:
        pass


@dataclass
class FakeRecogniser:
    """Hears the words of ``script`` in turn."""

    script: str = "one two three four five six seven eight nine ten"
    delay: float = 0.0
    fails: bool = False
    takes: list[int] = field(default_factory=list)
    rate: int = RATE
    languages: tuple[str, ...] = ()

    async def start(self) -> None:
        pass

    async def transcribe(
        self, pcm: Samples, *, language: str = "", before: Recognition | None = None
    ) -> Recognition:
        self.takes.append(len(pcm))
        await asyncio.sleep(self.delay)
        if self.fails:
            raise StageError("stt", "the recogniser failed")
        words = round(np.count_nonzero(np.abs(pcm) > 0.1) / WORD)
        return Recognition(" ".join(self.script.split()[:words]))

    async def stop(self) -> None:
        pass


@dataclass
class FakeModel:
    """Answers with ``answer``, a piece at a time; a ``StageError`` among the pieces is raised."""

    answer: list[Piece | StageError] = field(default_factory=lambda: ["Very well, thank you. "])
    tools: bool = True
    warms: bool = True
    delay: float = 0.0
    ending: float | None = None
    asked: list[Prompt] = field(default_factory=list)
    warmed: list[Prompt] = field(default_factory=list)
    at_work: int = 0

    async def start(self) -> None:
        pass

    async def warm(self, prompt: Prompt) -> None:
        self.warmed.append(prompt)

    async def ends(self, prompt: Prompt) -> float | None:
        return self.ending

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        self.asked.append(prompt)
        self.at_work += 1
        try:
            for piece in [*self.answer, Ending("stop")]:
                await asyncio.sleep(self.delay)
                if isinstance(piece, StageError):
                    raise piece
                yield piece
        finally:
            self.at_work -= 1

    async def stop(self) -> None:
        pass


@dataclass
class FakeVoice:
    fails: bool = False
    rate: int = VOICE_RATE
    voices: tuple[str, ...] = ("anna", "ben")
    spoken: list[str] = field(default_factory=list)

    async def start(self) -> None:
        pass

    async def speak(self, text: str, voice: str) -> AsyncGenerator[Spoken]:
        await asyncio.sleep(0)
        if self.fails:
            raise StageError("tts", "the voice failed")
        self.spoken.append(text)
        parts = text.split(" ")
        written = [part + " " for part in parts[:-1]] + parts[-1:]
        words = tuple(
            Word(word, index * SPOKEN_WORD, (index + 1) * SPOKEN_WORD)
            for index, word in enumerate(written)
        )
        yield Spoken(np.full(len(words) * SPOKEN_WORD, 0.1, np.float32), words)

    async def stop(self) -> None:
        pass


@dataclass
class Fakes:
    """A chain of fakes, each within reach."""

    judge: FakeJudge = field(default_factory=FakeJudge)
    recogniser: FakeRecogniser = field(default_factory=FakeRecogniser)
    model: FakeModel = field(default_factory=FakeModel)
    voice: FakeVoice = field(default_factory=FakeVoice)

    @property
    def chain(self) -> Chain:
        return Chain(Loudness(), self.judge, self.recogniser, self.model, self.voice)


def said(prompt: Prompt) -> list[str]:
    """The words of a prompt's messages."""
    return [
        "".join(part.text for part in message.parts if isinstance(part, Text))
        for message in prompt.messages
    ]
