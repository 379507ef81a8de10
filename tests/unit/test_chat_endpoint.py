"""A language model behind an endpoint: what it is asked, what comes of its answer."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from engine.cascade import endpoint as endpoint_module
from engine.cascade.chat_endpoint import ChatEndpoint
from engine.cascade.stages import Ending, Piece, Prompt, StageError
from engine.contract import Message, Text, Tool, ToolUse, Usage
from tests.unit.endpoints import Reply, Served, breaks_off, endpoint, events, never

PROMPT = Prompt("caller", "Be kind.", (Message(role="user", parts=(Text(text="Hello?"),)),))
STOP = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
DONE = "data: [DONE]\n\n"


def words(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}], "id": "x", "model": "m"}


def call(index: int | None = None, id: str | None = None, **function: str) -> dict[str, Any]:
    fragment = {"index": index, "id": id, "type": "function", "function": function}
    return {"choices": [{"delta": {"tool_calls": [fragment]}}]}


@asynccontextmanager
async def model(
    reply: Reply, status: int = 200, **options: Any
) -> AsyncIterator[tuple[ChatEndpoint, Served]]:
    async with endpoint("/v1/chat/completions", reply, status) as served:
        chat = ChatEndpoint(served.url, "some-model", **options)
        await chat.start()
        try:
            yield chat, served
        finally:
            await chat.stop()


async def answer(reply: Reply, prompt: Prompt = PROMPT, **options: Any) -> list[Piece]:
    async with model(reply, **options) as (chat, _):
        return [piece async for piece in chat.stream(prompt)]


async def test_words_come_as_they_are_made_and_the_usage_last() -> None:
    usage = {
        "choices": [],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }
    reply = events(": keep-alive\n\n", words("Good "), words("day."), STOP, usage, DONE)
    assert await answer(reply) == [
        "Good ",
        "day.",
        Ending("stop", Usage(input_tokens=9, output_tokens=2, cached_tokens=4)),
    ]


async def test_it_is_asked_for_the_whole_prompt() -> None:
    use = ToolUse(call_id="c1", name="clock", arguments="{}")
    prompt = Prompt(
        "caller",
        "Be kind.",
        (
            Message(role="user", parts=(Text(text="What time is it?"),)),
            Message(role="assistant", tool_calls=(use,)),
            Message(role="tool", parts=(Text(text="noon"),), call_id="c1"),
            Message(role="assistant"),
        ),
        tools=(Tool(name="clock", description="Tells the time.", parameters={"type": "object"}),),
        tool_choice="clock",
        max_tokens=50,
    )
    async with model(
        events(STOP, DONE), key="secret", extra_body={"temperature": 0.5, "stream_options": None}
    ) as (chat, served):
        assert [piece async for piece in chat.stream(prompt)] == [Ending("stop")]
    function = {"name": "clock", "arguments": "{}"}
    assert served.keys == ["Bearer secret"]
    assert served.bodies == [
        {
            "model": "some-model",
            "messages": [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": "What time is it?"},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"id": "c1", "type": "function", "function": function}],
                },
                {"role": "tool", "content": "noon", "tool_call_id": "c1"},
            ],
            "stream": True,
            "stream_options": None,
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "clock",
                        "description": "Tells the time.",
                        "parameters": {"type": "object"},
                    },
                }
            ],
            "tool_choice": {"type": "function", "function": {"name": "clock"}},
            "max_tokens": 50,
            "temperature": 0.5,
        }
    ]


async def test_tool_calls_leave_whole() -> None:
    reply = events(
        words("Let me see. "),
        call(0, "c1", name="weather", arguments=""),
        call(1, "c2", name="clock"),
        call(0, arguments='{"city": '),
        call(0, arguments='"Rome"}'),
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        DONE,
    )
    assert await answer(reply) == [
        "Let me see. ",
        ToolUse(call_id="c1", name="weather", arguments='{"city": "Rome"}'),
        ToolUse(call_id="c2", name="clock", arguments="{}"),
        Ending("tools"),
    ]


async def test_tool_calls_without_numbers_are_told_apart_by_their_ids() -> None:
    reply = events(
        call(id="c1", name="a", arguments='{"x":'),
        call(arguments="1}"),
        call(id="c2", name="b"),
        STOP,
        DONE,
    )
    first, second, ending = await answer(reply)
    assert first == ToolUse(call_id="c1", name="a", arguments='{"x":1}')
    assert second == ToolUse(call_id="c2", name="b", arguments="{}")
    assert ending == Ending("tools")


@pytest.mark.parametrize("arguments", ['{"city": "Ro', '"Rome"', "[]", "nonsense"])
async def test_a_malformed_tool_call_is_an_error_that_does_not_repeat_it(arguments: str) -> None:
    reply = events(call(0, "c1", name="weather", arguments=arguments), STOP, DONE)
    with pytest.raises(StageError, match="tool call's arguments are not a JSON object") as failure:
        await answer(reply)
    assert arguments not in str(failure.value)


async def test_a_tool_call_without_a_name_is_an_error() -> None:
    with pytest.raises(StageError, match="a tool call has no name"):
        await answer(events(call(0, "c1", arguments="{}"), STOP, DONE))


async def test_the_length_is_told() -> None:
    reply = events(words("Once"), {"choices": [{"delta": {}, "finish_reason": "length"}]}, DONE)
    assert await answer(reply) == ["Once", Ending("length")]


async def test_an_endpoint_that_refuses_is_told_by_its_status_alone() -> None:
    async def refuse(response: Any) -> None:
        await response.write(json.dumps({"error": "no Hello? for you"}).encode())

    for status in (307, 401, 500):
        with pytest.raises(StageError, match=rf"^llm: answered {status}$"):
            await answer(refuse, status=status)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (breaks_off, r"broke off after answering 200: Client\w+$"),
        (events(words("Hello")), r"^llm: the answer broke off$"),
        (events("data: {'\n\n"), r"sent no chat\.completion\.chunk$"),
        (events('data: {"choices": 3}\n\n'), r"sent no chat\.completion\.chunk$"),
        (events("data: " + "x" * (3 << 20)), r"broke off after .* 200: \w+$"),
    ],
)
async def test_an_answer_that_breaks_off_is_an_error(reply: Reply, error: str) -> None:
    with pytest.raises(StageError, match=error):
        await answer(reply)


async def test_an_endpoint_that_says_nothing_is_given_up() -> None:
    with pytest.raises(StageError, match=r"broke off after answering 200: nothing for 0\.1 s"):
        await answer(never, timeout=0.1)


async def test_words_that_stop_coming_are_given_up() -> None:
    async def stalls(response: Any) -> None:
        await events(words("Hello"))(response)
        await never(response)

    async with model(stalls, timeout=0.1) as (chat, _):
        stream = chat.stream(PROMPT)
        assert await anext(stream) == "Hello"
        with pytest.raises(StageError, match=r"nothing for 0\.1 s"):
            await anext(stream)


async def test_nobody_there_is_an_error() -> None:
    chat = ChatEndpoint("http://127.0.0.1:9/v1", "m")
    await chat.start()
    with pytest.raises(StageError, match=r"did not answer: Client\w+"):
        await anext(chat.stream(PROMPT))
    await chat.stop()


async def test_the_operator_is_told_the_host_alone_and_callers_not_even_that() -> None:
    chat = ChatEndpoint("http://user:password@127.0.0.1:9/v1?key=abc", "m")
    await chat.start()
    with pytest.raises(StageError) as failure:
        await anext(chat.stream(PROMPT))
    await chat.stop()
    assert "127.0.0.1:9" not in str(failure.value), "callers may be told this"
    assert failure.value.for_operator.endswith(" (127.0.0.1:9)")
    assert "password" not in failure.value.for_operator
    assert "abc" not in failure.value.for_operator


@pytest.mark.parametrize(
    ("status", "told"), [(200, []), (404, []), (401, ["answered 401"]), (502, ["answered 502"])]
)
async def test_an_endpoint_that_cannot_answer_is_warned_of_at_the_start(
    status: int, told: list[str]
) -> None:
    async with endpoint("/v1/models", events(), status, method="GET") as served:
        with capture_logs() as lines:
            chat = ChatEndpoint(served.url, "m")
            await chat.start()
            await chat.stop()
    host = urlsplit(served.url).netloc
    assert [line["reason"] for line in lines] == [f"llm: {what} ({host})" for what in told]
    assert all("engine.llm.url" in line["see"] for line in lines)


@pytest.mark.parametrize("silent", [False, True])
async def test_nobody_there_is_warned_of_at_the_start(
    silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_module, "_CHECK", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute, capture_logs() as lines:
        port = mute.getsockname()[1] if silent else 9
        chat = ChatEndpoint(f"http://127.0.0.1:{port}/v1", "m")
        await chat.start()
        await chat.stop()
    (line,) = lines
    assert line["log_level"] == "warning"
    assert "did not answer" in line["reason"]


async def test_closing_the_stream_ends_the_request() -> None:
    async def endless(response: Any) -> None:
        while True:
            await events(words("and "), pause=0.01)(response)

    async with model(endless) as (chat, served):
        stream = chat.stream(PROMPT)
        assert await anext(stream) == "and "
        await stream.aclose()
        await asyncio.wait_for(served.left.wait(), 2)


async def test_warming_asks_nothing() -> None:
    async with model(never) as (chat, served):
        await chat.warm(PROMPT)
    assert served.bodies == []
