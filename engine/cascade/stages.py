"""The three stages of a cascade, each a small interface with its adapters.

A stage serves every caller of the engine. It never blocks the event loop: an embedded model
computes in a thread of its own, an endpoint is awaited. Cancelling a task, or closing a generator,
stops the work behind it as soon as the model allows.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Protocol

from engine.contract import Message, Samples, Tool, ToolUse, Usage


class StageError(Exception):
    """A stage failed: ``stage`` is ``stt``, ``judge``, ``llm`` or ``tts``.

    It may reach callers, so it never holds what was said, nor where an operator's endpoint is:
    ``host`` is told in ``for_operator`` alone.
    """

    def __init__(self, stage: str, message: str, host: str = "") -> None:
        super().__init__(f"{stage}: {message}")
        self.stage = stage
        self.for_operator = f"{self} ({host})" if host else str(self)


@dataclass(frozen=True, slots=True)
class Recognition:
    """What was recognised; ``tokens`` let the next, longer take of the sound start from it."""

    text: str
    tokens: tuple[int, ...] = ()


class Recogniser(Protocol):
    """Speech to text over a whole take of sound."""

    @property
    def rate(self) -> int:
        """Hz, of the sound it takes."""

    @property
    def languages(self) -> tuple[str, ...]:
        """What it understands (ISO 639-1); empty where it does not say."""

    async def start(self) -> None:
        """Loads and warms up."""

    async def transcribe(
        self, pcm: Samples, *, language: str = "", before: Recognition | None = None
    ) -> Recognition:
        """What ``pcm`` says; ``before`` is the recognition of a shorter take of it (a hint only).

        Raises:
            StageError: the recogniser failed.
        """

    async def stop(self) -> None:
        """Frees what it holds."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a language model is asked. Every message's parts are ``Text`` by now.

    ``caller`` tells callers apart, so that a model may keep each one's prefix warm.
    """

    caller: str
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """The last piece of a stream: why it ended and what it took."""

    reason: str
    """``stop``, ``length`` or ``tools``."""
    usage: Usage = field(default_factory=Usage)


Piece = str | ToolUse | Ending
"""A stream of a language model: words as they come, whole tool calls, one ``Ending``."""


class LanguageModel(Protocol):
    """Text to text."""

    @property
    def tools(self) -> bool:
        """Whether it can call tools."""

    @property
    def warms(self) -> bool:
        """Whether ``warm`` and drafts are free (false where each request is billed)."""

    async def start(self) -> None:
        """Loads and warms up."""

    async def warm(self, prompt: Prompt) -> None:
        """Reads a prompt that is going to be asked, longer by some words, soon."""

    async def ends(self, prompt: Prompt) -> float | None:
        """The probability, 0..1, that the caller's last message is a sentence that ends where it
        does; None where the model cannot tell.

        Raises:
            StageError: the model failed.
        """

    def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """The answer as it is made; ends with ``Ending``.

        Raises:
            StageError: the model failed, before or amid the answer.
        """

    async def stop(self) -> None:
        """Frees what it holds."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, its trailing space included, and the samples that speak it.

    Positions count from the first sample of the text's sound. Joined words are the text.
    """

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Spoken:
    """The next sound of a text and the words it completes."""

    pcm: Samples
    words: tuple[Word, ...] = ()


class Voice(Protocol):
    """Text to speech, a clause at a time."""

    @property
    def rate(self) -> int:
        """Hz, of the sound it makes."""

    @property
    def voices(self) -> tuple[str, ...]:
        """The voices it has, the default first."""

    async def start(self) -> None:
        """Loads and warms up."""

    def speak(self, text: str, voice: str) -> AsyncGenerator[Spoken]:
        """Speaks a clause; near-silence at its start is trimmed already.

        Raises:
            StageError: the voice failed.
        """

    async def stop(self) -> None:
        """Frees what it holds."""
