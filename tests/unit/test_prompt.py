"""Prompts: drafts and replies agree, and successive prompts share their beginnings."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from engine.cascade.prompt import prompt_ahead, prompt_for, resolved, trimmed, turns_of
from engine.contract import Context, Message, Part, Respond, Role, Text, Tool, ToolUse, Turn


def says(role: Role, *parts: str | Part) -> Message:
    return Message(role=role, parts=tuple(Text(text=p) if isinstance(p, str) else p for p in parts))


def dialogue(exchanges: int) -> tuple[Message, ...]:
    return tuple(
        says(role, f"{role} {index}")
        for index in range(exchanges)
        for role in ("user", "assistant")
    )


RESPOND = Respond(reply="r", revision=1)


@given(st.integers(0, 40), st.integers(2, 20))
def test_history_is_bounded_and_keeps_the_newest(count: int, history: int) -> None:
    messages = dialogue(count)
    kept = trimmed(messages, history)
    assert len(kept) <= history
    assert kept == messages[len(messages) - len(kept) :]
    assert len(kept) > history // 2 or kept == messages


def test_between_drops_every_prompt_begins_with_the_one_before() -> None:
    prompts = [trimmed(dialogue(20)[:count], 8) for count in range(40)]
    drops = sum(b[: len(a)] != a for a, b in itertools.pairwise(prompts))
    assert drops == 8, "one in four messages"


def test_a_tools_result_never_stands_without_its_call() -> None:
    call = ToolUse(call_id="c", name="look", arguments="{}")
    pair = (Message(role="assistant", tool_calls=(call,)), Message(role="tool", call_id="c"))
    messages = (*dialogue(1), says("user", "look"), *pair, *dialogue(2))
    for history in range(2, 10):
        kept = trimmed(messages, history)
        assert not kept or kept[0].role != "tool"


def test_turns_are_replaced_by_what_was_said() -> None:
    messages = (
        says("user", Turn(turn="a")),
        says("assistant", "Yes?"),
        says("user", Turn(turn="b")),
    )
    assert turns_of(messages) == {"a", "b"}
    assert resolved(messages, {"a": "Hello", "b": "Bye"})[2] == says("user", "Bye")
    assert resolved(messages, {"b": "Bye"})[0].role == "assistant", (
        "a turn not understood is left out"
    )


def test_a_sentence_in_two_turns_is_one_message_however_it_is_written() -> None:
    said = {"a": "I want", "b": "two of them"}
    apart = (says("user", Turn(turn="a")), says("user", Turn(turn="b")))
    joined = (says("user", Turn(turn="a"), Turn(turn="b")),)
    assert resolved(apart, said) == resolved(joined, said) == (says("user", "I want two of them"),)


@given(st.integers(0, 20), st.booleans())
def test_a_draft_has_the_prompt_of_the_reply_that_is_asked_for(count: int, split: bool) -> None:
    before = (*dialogue(count), says("user", "Well,")) if split else dialogue(count)
    now = Context(revision=1, messages=before, instructions="Be kind.")
    ahead = prompt_ahead(now, "how are you?", {}, caller="c", like=RESPOND)
    then = Context(
        revision=2, messages=(*before, says("user", Turn(turn="t"))), instructions="Be kind."
    )
    assert prompt_for(then, RESPOND, {"t": "how are you?"}, caller="c") == ahead


def test_a_reply_takes_what_it_is_given_over_what_the_context_says() -> None:
    tool = Tool(name="look")
    context = Context(revision=1, messages=dialogue(1), instructions="A", tools=(tool,))
    own = Respond(
        reply="r",
        revision=1,
        messages=(says("user", "Summarise."),),
        instructions="",
        tools=(),
        tool_choice="none",
        max_tokens=9,
    )
    prompt = prompt_for(context, own, {}, caller="c")
    assert prompt.messages == own.messages
    assert (prompt.instructions, prompt.tools, prompt.tool_choice) == ("", (), "none")
    assert prompt.max_tokens == 9
    assert prompt_for(context, RESPOND, {}, caller="c").tools == (tool,)


def test_a_model_can_be_warmed_before_a_word_is_said() -> None:
    context = Context(revision=1, messages=dialogue(1))
    ahead = prompt_ahead(context, "", {}, caller="c", like=RESPOND)
    assert ahead.messages[:2] == dialogue(1)
    assert ahead.messages[2].role == "user"
