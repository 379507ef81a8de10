"""The embedded language model: SmolLM2-135M, or an operator's own GGUF, through llama.cpp.

A model this small holds its thread of a conversation by two things: example exchanges that stand in
the prompt before the caller's first word, and a cool temperature. Speed comes from reading nothing
twice. Each caller has a slot of the model's memory, in which the prompt that was read last stays;
what a prompt shares with it costs nothing. So a prompt that is too long is shortened by several
messages at once, because each cut makes the rest be read again.

One thread computes: with two, llama.cpp waits for the slower by spinning, and on a machine that
does anything else a token then costs ten times the CPU. Prompts are read 64 tokens at a time, so
that callers take turns and an answer nobody wants stops soon.

llama.cpp runs as its HTTP server inside this process; it listens where nobody can call it, on a
Unix socket in a private folder that is gone once it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import xllamacpp
from msgspec import Struct

from engine.cascade.chat import Answer, ChatMessage, Chunk, said
from engine.cascade.sentence import CANDIDATES, NextToken, end_probability, unended
from engine.cascade.stages import Piece, Prompt, StageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from pathlib import Path

INSTRUCTIONS = (
    "You are a friendly voice assistant. "
    "Answer in one or two short sentences of plain spoken words."
)
"""The role, where a session gives none."""

EXAMPLES = (
    ("Hi, can you hear me?", "Yes, I can hear you well. How can I help you today?"),
    ("What is the highest mountain?", "That is Mount Everest, on the border of Nepal and China."),
)
"""What a caller said and how it was answered well."""

LONGEST = 160
"""Tokens of a reply: forty seconds of speech."""

_BLOCK = 4
"""Messages that are dropped at once."""

_BATCH = 64
"""Tokens read at a time."""

_BYTES_PER_TOKEN = 3
"""Of English, with some reserve; where it fails, half is tried, and so on down to one."""

_Hand: TypeAlias = "Callable[[Chunk | StageError | None], None]"


class Llama:
    """The language model (:class:`engine.cascade.stages.LanguageModel`).

    Args:
        model: the GGUF file.
        callers: that can be kept warm at once.
        context: tokens of each caller's prompt and reply together.
        instructions, examples: see :data:`INSTRUCTIONS` and :data:`EXAMPLES`.
        chatml: its prompts are in ChatML, so that it can be asked how a sentence goes on.
    """

    tools = False
    warms = True

    def __init__(
        self,
        model: Path,
        *,
        callers: int = 2,
        context: int = 2048,
        instructions: str = INSTRUCTIONS,
        examples: Sequence[tuple[str, str]] = EXAMPLES,
        chatml: bool = True,
    ) -> None:
        self._model = model
        self._context = context
        self._instructions = instructions
        self._examples: list[ChatMessage] = [
            {"role": role, "content": text}
            for exchange in examples
            for role, text in zip(("user", "assistant"), exchange, strict=True)
        ]
        self._chatml = chatml
        self._slots = Slots(callers)
        self._callers = callers
        self._threads = ThreadPoolExecutor(2 * callers, thread_name_prefix="llm")

    async def start(self) -> None:
        """Loads, and reads the prompt's fixed beginning into every slot.

        Raises:
            StageError: the file is not a model that llama.cpp can run.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.run_in_executor(self._threads, self._load)
        for slot in range(self._callers):
            await self._read(Prompt("", "", ()), slot)

    async def warm(self, prompt: Prompt) -> None:
        """Reads a prompt that is going to be asked, longer by some words, soon.

        Raises:
            StageError: the model failed.
        """
        await self._read(prompt, self._slots.of(prompt.caller))

    async def ends(self, prompt: Prompt) -> float | None:
        """See :class:`engine.cascade.stages.LanguageModel`. What it reads, a reply need not read.

        Raises:
            StageError: the model failed.
        """
        if not self._chatml:
            return None
        slot = self._slots.of(prompt.caller)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._ask_end, prompt, slot)

    def stream(self, prompt: Prompt) -> AsyncGenerator[Piece, None]:
        """The answer as it is made, of at most ``LONGEST`` tokens; ends with ``Ending``.

        Raises:
            StageError: the model failed, before or amid the answer.
        """
        most = min(prompt.max_tokens or LONGEST, LONGEST)
        return self._answer(prompt, self._slots.of(prompt.caller), most)

    async def stop(self) -> None:
        """Frees what it holds."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._server = None

    def _load(self) -> Any:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self._model)
        parameters.n_ctx = self._context * self._callers
        parameters.n_parallel = self._callers
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
        parameters.n_batch = parameters.n_ubatch = _BATCH
        parameters.cache_ram_mib = 0  # a slot's own memory is all the cache there is
        parameters.cache_idle_slots = False
        parameters.ui = parameters.endpoint_slots = False
        parameters.verbosity = -1  # or it would log prompts
        with tempfile.TemporaryDirectory() as private:
            parameters.hostnames = [f"{private}/llama.sock"]
            try:
                return xllamacpp.Server(parameters)
            except Exception:
                raise StageError("llm", f"{self._model}: llama.cpp cannot load it") from None

    async def _read(self, prompt: Prompt, slot: int) -> None:
        async with aclosing(self._answer(prompt, slot, 1)) as pieces:
            async for _ in pieces:
                pass

    async def _answer(self, prompt: Prompt, slot: int, most: int) -> AsyncGenerator[Piece, None]:
        loop = asyncio.get_running_loop()
        come: asyncio.Queue[Chunk | StageError | None] = asyncio.Queue()
        stopped = threading.Event()

        def hand(chunk: Chunk | StageError | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is gone, and with it whoever asked
                loop.call_soon_threadsafe(come.put_nowait, chunk)

        self._threads.submit(self._ask, prompt, slot, most, hand, stopped.is_set)
        answer = Answer(partial(StageError, "llm"))
        try:
            while (chunk := await come.get()) is not None:
                if isinstance(chunk, StageError):
                    raise chunk
                for words in answer.take(chunk):
                    yield words
            for piece in answer.end():
                yield piece
        finally:
            stopped.set()

    def _ask(
        self, prompt: Prompt, slot: int, most: int, hand: _Hand, stopped: Callable[[], bool]
    ) -> None:
        """In a thread: hands over the chunks of the answer, then None or the error."""
        budget = self._context * _BYTES_PER_TOKEN
        error = ""

        def take(chunks: Any) -> bool:
            nonlocal error
            for chunk in chunks if isinstance(chunks, list) else [chunks]:
                if "error" in chunk:
                    error = chunk["error"]["type"]
                else:
                    hand(msgspec.convert(chunk, Chunk))
            return stopped()

        while budget and not stopped():
            error = ""
            try:
                request = self._request(prompt, slot, most, budget)
                self._server.handle_chat_completions(request, take)
            except Exception as failure:  # whatever the library throws must reach who waits
                error = type(failure).__name__
            if error != "exceed_context_size_error":
                break
            budget //= 2
        hand(StageError("llm", f"llama.cpp refused: {error}") if error else None)

    def _ask_end(self, prompt: Prompt, slot: int) -> float | None:
        """In a thread: see :meth:`ends`."""
        request = {
            "prompt": unended(self._messages(prompt, self._context * _BYTES_PER_TOKEN)),
            "id_slot": slot,
            "cache_prompt": True,
            "max_tokens": 1,
            "logprobs": CANDIDATES,
        }
        told: list[Any] = []
        try:
            self._server.handle_completions(request, told.append)
            return end_probability(msgspec.convert(told[-1], _Completion).next_tokens)
        except Exception as failure:
            message = f"llama.cpp refused: {type(failure).__name__}"
            raise StageError("llm", message) from None

    def _messages(self, prompt: Prompt, budget: int) -> list[ChatMessage]:
        """What fits into ``budget`` bytes, the fixed beginning first."""
        role = (prompt.instructions or self._instructions)[: budget // 3]
        opening: list[ChatMessage] = [{"role": "system", "content": role}, *self._examples]
        rest = budget - sum(map(_size, opening)) - LONGEST * _BYTES_PER_TOKEN
        return opening + suffix(asked(_spoken(prompt)), rest)

    def _request(self, prompt: Prompt, slot: int, most: int, budget: int) -> dict[str, Any]:
        return {
            "messages": self._messages(prompt, budget),
            "id_slot": slot,
            "cache_prompt": True,
            "max_tokens": most,
            "temperature": 0.2,
            "top_p": 0.9,
            "repeat_penalty": 1.1,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,  # a sign of life while it reads, on which it can be stopped
        }


class _LogProbs(Struct):
    top_logprobs: tuple[NextToken, ...]


class _Content(Struct):
    content: tuple[_LogProbs, ...]


class _Choice(Struct):
    logprobs: _Content


class _Completion(Struct):
    """What is read of a completion."""

    choices: tuple[_Choice, ...]

    @property
    def next_tokens(self) -> tuple[NextToken, ...]:
        return self.choices[0].logprobs.content[0].top_logprobs


class Slots:
    """Which caller has which slot; a newcomer takes the one that was longest unused."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._callers: OrderedDict[str, int] = OrderedDict()

    def of(self, caller: str) -> int:
        """The slot of ``caller``, which is now the latest used."""
        if caller in self._callers:
            self._callers.move_to_end(caller)
        elif len(self._callers) < self._count:
            self._callers[caller] = len(self._callers)
        else:
            self._callers[caller] = self._callers.popitem(last=False)[1]
        return self._callers[caller]


def suffix(messages: Sequence[ChatMessage], budget: int) -> list[ChatMessage]:
    """The last of ``messages`` that ``budget`` bytes can hold.

    ``_BLOCK`` are dropped at once, so that the prompt keeps its beginning for some turns. Where the
    last few alone are too long, the eldest words go.
    """
    start = 0
    while start + _BLOCK < len(messages) and sum(map(_size, messages[start:])) > budget:
        start += _BLOCK
    kept: list[ChatMessage] = []
    for message in reversed(messages[start:]):
        if budget <= 0:
            break
        content = message["content"].encode()[-budget:].decode(errors="ignore")
        kept.append({"role": message["role"], "content": content})
        budget -= _size(message)
    return kept[::-1]


def asked(messages: list[ChatMessage]) -> list[ChatMessage]:
    """``messages`` with something to answer at their end.

    A small model that is asked to speak first, or again, otherwise goes on with its examples.
    """
    if messages and messages[-1]["role"] != "assistant":
        return messages
    return [*messages, {"role": "user", "content": "Go on." if messages else "Hello."}]


def _spoken(prompt: Prompt) -> list[ChatMessage]:
    """The messages as this model knows them: what a tool found counts as said by the user."""
    return [
        {"role": "user" if message.role == "tool" else message.role, "content": text}
        for message in prompt.messages
        if (text := said(message))
    ]


def _size(message: ChatMessage) -> int:
    return len(message["content"].encode())
