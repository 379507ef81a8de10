"""What the language model is asked: the conversation, with what was said in its turns' places.

A prompt is a plain value. A draft was made for the very reply that is asked for if, and only if,
the two prompts are equal; nothing else needs to be compared. And a model keeps the beginning of a
prompt warm as long as it does not change, so history is dropped in blocks: between two drops every
prompt begins with the one before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.cascade.stages import Prompt
from engine.contract import Context, Message, Respond, Text, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HISTORY = 8
"""Messages a small model is shown at most: more cost it seconds and help it little."""


def turns_of(messages: Iterable[Message]) -> set[str]:
    """The turns that stand in ``messages`` by their ids."""
    return {part.turn for message in messages for part in message.parts if isinstance(part, Turn)}


def prompt_for(
    context: Context,
    respond: Respond,
    transcripts: Mapping[str, str],
    *,
    caller: str,
    history: int = HISTORY,
) -> Prompt:
    """The prompt of a reply; turns without a transcript are left out."""
    messages = context.messages if respond.messages is None else respond.messages
    instructions = respond.instructions
    return Prompt(
        caller=caller,
        instructions=context.instructions if instructions is None else instructions,
        messages=trimmed(resolved(messages, transcripts), history),
        tools=context.tools if respond.tools is None else respond.tools,
        tool_choice=respond.tool_choice,
        max_tokens=respond.max_tokens,
    )


def prompt_ahead(
    context: Context,
    said: str,
    transcripts: Mapping[str, str],
    *,
    caller: str,
    like: Respond,
    history: int = HISTORY,
) -> Prompt:
    """The prompt of the reply to come once the caller, who has said ``said`` so far, ends.

    ``like`` is a reply that was asked for before: the next is likely to be asked for alike.
    """
    turn = Message(role="user", parts=(Text(text=said),))
    messages = resolved((*context.messages, turn), transcripts)
    if not said:
        messages = (*messages, turn)
    return Prompt(
        caller=caller,
        instructions=context.instructions,
        messages=trimmed(messages, history),
        tools=context.tools,
        tool_choice=like.tool_choice,
        max_tokens=like.max_tokens,
    )


def resolved(messages: Iterable[Message], transcripts: Mapping[str, str]) -> tuple[Message, ...]:
    """``messages`` with words only: empty ones left out, a caller's consecutive ones joined.

    A sentence cut by a pause is two turns; joined it is one sentence for the model.
    """
    result: list[Message] = []
    for message in messages:
        words = " ".join(filter(None, (_said(part, transcripts) for part in message.parts)))
        if not words and not message.tool_calls and message.role != "tool":
            continue
        if message.role == "user" and result and result[-1].role == "user":
            words = f"{_words(result.pop())} {words}"
        result.append(
            Message(
                role=message.role,
                parts=(Text(text=words),) if words else (),
                tool_calls=message.tool_calls,
                call_id=message.call_id,
            )
        )
    return tuple(result)


def trimmed(messages: tuple[Message, ...], history: int) -> tuple[Message, ...]:
    """The newest of ``messages``, ``history`` at most, the older dropped half of that at a time.

    How many are dropped depends on their number alone. A tool's result never stands without its
    call.
    """
    block = max(1, history // 2)
    over = max(0, len(messages) - history)
    first = -(-over // block) * block
    while first < len(messages) and messages[first].role == "tool":
        first += 1
    return messages[first:]


def _said(part: Text | Turn, transcripts: Mapping[str, str]) -> str:
    return part.text if isinstance(part, Text) else transcripts.get(part.turn, "")


def _words(message: Message) -> str:
    return " ".join(part.text for part in message.parts if isinstance(part, Text))
