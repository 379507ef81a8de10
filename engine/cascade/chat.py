"""Prompts and answers in the form of OpenAI's chat completions.

Both language models speak it: llama.cpp in our own process, and whatever endpoint an operator
names. What comes back is parsed into :data:`engine.cascade.stages.Piece` here, once; tool calls
arrive in fragments and leave whole or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import Struct

from engine.cascade.stages import Ending, Piece, Prompt, StageError
from engine.contract import Message, Text, ToolUse, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ChatMessage: TypeAlias = dict[str, Any]

_MOST_ARGUMENTS = 1 << 18
"""Characters of a tool call's arguments; more is a model that lost its way."""


def said(message: Message) -> str:
    """The words of ``message``."""
    return "".join(part.text for part in message.parts if isinstance(part, Text))


def chat_messages(prompt: Prompt) -> list[ChatMessage]:
    """The instructions and the messages; those that are empty are left out."""
    chat: list[ChatMessage] = []
    if prompt.instructions:
        chat.append({"role": "system", "content": prompt.instructions})
    for message in prompt.messages:
        entry: ChatMessage = {"role": message.role, "content": said(message)}
        if message.role == "tool":
            entry["tool_call_id"] = message.call_id
        if message.tool_calls:
            entry["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in message.tool_calls
            ]
        if entry["content"] or len(entry) > 2:
            chat.append(entry)
    return chat


def tool_fields(prompt: Prompt) -> dict[str, Any]:
    """The request's ``tools`` and ``tool_choice``; none where the prompt has no tools."""
    if not prompt.tools:
        return {}
    named = {"type": "function", "function": {"name": prompt.tool_choice}}
    return {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in prompt.tools
        ],
        "tool_choice": (
            prompt.tool_choice if prompt.tool_choice in ("auto", "none", "required") else named
        ),
    }


class _Function(Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolDelta(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function = msgspec.field(default_factory=_Function)


class _Delta(Struct):
    content: str | None = None
    tool_calls: list[_ToolDelta] | None = None


class _Choice(Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None


class _Details(Struct):
    cached_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class Chunk(Struct):
    """A ``chat.completion.chunk``, as far as it is read; ``choices`` may be empty."""

    choices: list[_Choice] = []
    usage: _Usage | None = None


class Answer:
    """A streamed answer, put together chunk by chunk; ``failure`` makes an error of what is wrong
    with it."""

    def __init__(self, failure: Callable[[str], StageError]) -> None:
        self._failure = failure
        self._calls: dict[int, _ToolDelta] = {}
        self._finish: str | None = None
        self._usage = Usage()

    def take(self, chunk: Chunk) -> Iterator[str]:
        """The words that ``chunk`` adds."""
        if chunk.usage is not None:
            details = chunk.usage.prompt_tokens_details
            self._usage = Usage(
                input_tokens=chunk.usage.prompt_tokens,
                output_tokens=chunk.usage.completion_tokens,
                cached_tokens=(details.cached_tokens or 0) if details else 0,
            )
        for choice in chunk.choices:
            self._finish = choice.finish_reason or self._finish
            for fragment in choice.delta.tool_calls or ():
                self._add(fragment)
            if choice.delta.content:
                yield choice.delta.content

    def end(self) -> list[Piece]:
        """The tool calls and the ending, once nothing more comes.

        Raises:
            StageError: the answer breaks off, or a tool call is not one.
        """
        if self._finish is None:
            raise self._failure("the answer broke off")
        calls: list[Piece] = [self._whole(call) for _, call in sorted(self._calls.items())]
        reason = "tools" if calls else "length" if self._finish == "length" else "stop"
        return [*calls, Ending(reason, self._usage)]

    def _add(self, fragment: _ToolDelta) -> None:
        """Where there is no index, a fragment with an id begins a call and others go on with it."""
        index = fragment.index
        if index is None:
            index = len(self._calls) if fragment.id else max(0, len(self._calls) - 1)
        call = self._calls.setdefault(index, _ToolDelta(index))
        call.id = call.id or fragment.id
        call.function.name = call.function.name or fragment.function.name
        call.function.arguments = (call.function.arguments or "") + (
            fragment.function.arguments or ""
        )
        if len(call.function.arguments) > _MOST_ARGUMENTS:
            raise self._failure(f"a tool call's arguments exceed {_MOST_ARGUMENTS} characters")

    def _whole(self, call: _ToolDelta) -> ToolUse:
        name, arguments = call.function.name, call.function.arguments or "{}"
        try:
            msgspec.json.decode(arguments, type=dict[str, Any])
        except msgspec.DecodeError:
            raise self._failure("a tool call's arguments are not a JSON object") from None
        if not name:
            raise self._failure("a tool call has no name")
        return ToolUse(call_id=call.id or f"call_{uuid4().hex}", name=name, arguments=arguments)
