"""A language model that fails, or calls tools, behind the default engine's own voice.

A caller cannot see an error, so every failure is also said aloud; and what a model writes to call a
tool is never said.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

import numpy as np
import pytest

from engine.weights import Paths
from tests.callers import SOCKET_RATE, Caller, socket
from tests.conformance.ears import ears
from tests.conformance.scripted_brain import Answer, Call, Refuse, Say, Stall, address, brain
from tests.serving import Server

pytestmark = pytest.mark.weights

URL = address()
PATIENCE = 1.5
"""Seconds without a word after which the engine gives the model up, as this server is told."""
TOLD = 5.0
"""Seconds more until the caller has heard of it: an apology is spoken first."""
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture(scope="module")
def server(weights: Paths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    model = ("--engine.llm.url", URL, "--engine.llm.model", "scripted")
    patience = ("--engine.llm.timeout", str(PATIENCE))
    with Server(*model, *patience, log=tmp_path_factory.mktemp("server") / "log") as running:
        yield running


FAULTS: dict[str, Answer | None] = {
    "refuses the connection": None,
    "answers 500": Refuse(),
    "answers 200 with no stream": Refuse(200, "<html>Welcome</html>"),
    "stalls before the first word": Stall(),
    "stalls amid the answer": Say("It is a quarter past", then="stall"),
    "dies amid the answer": Say("It is a quarter past", then="die"),
    "calls a tool with half its arguments": Call("get_weather", '{"city": "Par'),
    "writes a tool call into its words": Say(
        'One moment. <tool_call> {"name": "get_weather", "arguments": {"city": "Paris"}'
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_model_that_fails_is_apologised_for_and_asked_again(
    server: Server, weights: Paths, fault: str
) -> None:
    answer = FAULTS[fault]
    async with AsyncExitStack() as running, socket(server.url) as caller:
        if answer is not None:
            await running.enter_async_context(brain(URL, answer))
        await caller.update(tools=[WEATHER])
        await caller.write("What time is it?")
        began = time.monotonic()
        await caller.send("response.create")
        failed = await caller.done(PATIENCE + TOLD)
        assert time.monotonic() - began < PATIENCE + TOLD
        assert failed["status"] == "failed"
        assert failed["status_details"]["error"]["code"] == "reply_failed"
        (item,) = failed["output"]
        said = item["content"][0]["transcript"]
        assert said.endswith("Sorry, I lost my train of thought.")
        assert "city" not in said
        assert "weather" not in said
        sound = np.frombuffer(caller.strict.sound[item["id"]], "<i2").astype(np.float32)
        async with ears(weights) as judge:
            assert "sorry" in await judge.hear(sound / np.float32(32768), SOCKET_RATE)
        if answer is None:
            await running.enter_async_context(brain(URL))
        await caller.send("response.create")
        assert (await caller.done())["status"] == "completed"
        caller.strict.finish()
    session = caller.strict.events[0]["session"]["id"]
    lines = [line for line in server.log_lines() if line["event"] == "reply failed"]
    told, explained = [line for line in lines if line["session"] == session]
    assert {told.get("code"), explained.get("code")} == {"reply_failed", None}
    assert {told.get("stage"), explained.get("stage")} == {"llm", None}


async def test_a_tool_is_called_and_its_result_is_answered_with(server: Server) -> None:
    call = Call("get_weather", '{"city": "Paris"}', call_id="call_7", text="One moment.")
    async with (
        brain(URL, call, Say("It rains in Paris.")) as scripted,
        socket(server.url) as caller,
    ):
        await caller.update(tools=[WEATHER], tool_choice="auto")
        await caller.write("How is the weather in Paris?")
        await caller.send("response.create")
        message, use = (await caller.done())["output"]
        assert message["content"][0]["transcript"] == "One moment."
        assert (use["type"], use["name"]) == ("function_call", "get_weather")
        assert (use["arguments"], use["call_id"]) == (call.arguments, "call_7")
        result = {"type": "function_call_output", "call_id": "call_7", "output": '"rain"'}
        await caller.send("conversation.item.create", item=result)
        await caller.send("response.create")
        (answer,) = (await caller.done())["output"]
        assert answer["content"][0]["transcript"] == "It rains in Paris."
        caller.strict.finish()
        assert spoken(caller) == "One moment.It rains in Paris."
    asked, told = scripted.requests
    assert asked["tools"][0]["function"]["name"] == "get_weather"
    *_, user, called, result = told["messages"]
    assert (user["role"], called["role"], result["role"]) == ("user", "assistant", "tool")
    assert called["tool_calls"][0]["function"] == {"name": use["name"], "arguments": call.arguments}
    assert (result["tool_call_id"], result["content"]) == ("call_7", '"rain"')


def spoken(caller: Caller) -> str:
    """All that the caller was told aloud."""
    kind = "response.output_audio_transcript.delta"
    return "".join(event["delta"] for event in caller.strict.events if event["type"] == kind)
