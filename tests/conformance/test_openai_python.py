"""OpenAI's own Python client does with the server whatever it can; the engine is simulated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import pytest
from openai import AuthenticationError, OpenAI
from openai.types.realtime import RealtimeConversationItemAssistantMessage, ResponseDoneEvent
from openai.types.realtime.realtime_session_create_response import RealtimeSessionCreateResponse

from tests.callers import Caller
from tests.conformance.openai_python import called, connected, openai
from tests.conformance.strict import StrictClient
from tests.network.simulated import simulated, tone
from tests.serving import Server

STORY = " ".join(["lighthouse"] * 60)
"""Takes longer to say than an engine runs ahead of a call."""
KEY = "let-nobody-else-in-here"
OPENING = 2
"""Events that every connection is sent for itself: of the session, and of its conversation."""
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose engine says what it is told."""
    with simulated(tmp_path_factory.mktemp("echo") / "log") as running:
        yield running


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that asks for a key."""
    with simulated(tmp_path_factory.mktemp("locked") / "log", "--token", KEY) as running:
        yield running


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose engine calls a tool, and then says something."""
    script = [
        {"calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]},
        {"text": "It rains in Paris."},
    ]
    log = tmp_path_factory.mktemp("scripted") / "log"
    with simulated(log, mode="scripted", script=script) as running:
        yield running


def test_the_synchronous_client_reads_typed_events(echo: Server) -> None:
    strict = StrictClient()
    with (
        OpenAI(base_url=urljoin(echo.url, "v1"), api_key="none") as client,
        client.realtime.connect(model="gpt-realtime") as connection,
    ):
        connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        connection.conversation.item.create(
            item={
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "one two three"}],
            }
        )
        connection.response.create()
        event = None
        while not isinstance(event, ResponseDoneEvent):
            raw = connection.recv_bytes()
            strict.see(raw.decode())
            event = connection.parse_event(raw)
    assert event.response.output
    (item,) = event.response.output
    assert isinstance(item, RealtimeConversationItemAssistantMessage)
    assert [part.text for part in item.content] == ["one two three"]
    assert event.response.usage is not None
    strict.finish()


async def test_models_are_listed_and_looked_up(echo: Server) -> None:
    async with openai(echo.url) as client:
        listed = [model.id async for model in await client.models.list()]
        assert "gpt-realtime" in listed
        assert (await client.models.retrieve("gpt-realtime")).id == "gpt-realtime"


async def test_a_secret_begins_the_session_that_is_bound_in_it(locked: Server) -> None:
    async with openai(locked.url, KEY) as client:
        secret = await client.realtime.client_secrets.create(
            expires_after={"anchor": "created_at", "seconds": 60},
            session={"type": "realtime", "instructions": "Be brief."},
        )
    assert secret.value.startswith("ek_")
    assert isinstance(secret.session, RealtimeSessionCreateResponse)
    assert secret.session.instructions == "Be brief."
    async with connected(locked.url, key=secret.value) as caller:
        assert caller.strict.events[0]["session"]["instructions"] == "Be brief."


async def test_a_key_that_is_not_known_is_refused_as_the_client_expects(locked: Server) -> None:
    async with openai(locked.url, "another") as client:
        with pytest.raises(AuthenticationError):
            await client.models.list()
        with pytest.raises(AuthenticationError):
            await client.realtime.client_secrets.create()


async def test_a_turn_that_the_server_detects_is_answered(echo: Server) -> None:
    async with connected(echo.url, talks=True) as caller:
        await caller.update(
            audio={
                "input": {
                    "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
                    "transcription": {"model": "whisper-1"},
                }
            }
        )
        caller.microphone.say(tone(caller))
        started = await caller.event("input_audio_buffer.speech_started")
        await caller.event("input_audio_buffer.speech_stopped")
        assert (await caller.event("input_audio_buffer.committed"))["item_id"] == started["item_id"]
        (item,) = (await caller.done())["output"]
        assert item["content"][0]["transcript"] == "turn 1"
        completed = "conversation.item.input_audio_transcription.completed"
        (heard,) = [event for event in caller.strict.events if event["type"] == completed]
        assert (heard["item_id"], heard["transcript"]) == (started["item_id"], "turn 1")
        caller.strict.finish()


async def test_what_was_not_played_of_a_finished_reply_is_cut(echo: Server) -> None:
    async with connected(echo.url) as caller:
        await caller.write("one two three four")
        await caller.send("response.create")
        (item,) = (await caller.done())["output"]
        assert await truncate(caller, item["id"], 350) == 350
        assert await transcript(caller, item["id"]) == "one two"


async def test_a_response_can_be_text_alone(echo: Server) -> None:
    async with connected(echo.url) as caller:
        await caller.write("one two three")
        await caller.send("response.create", response={"output_modalities": ["text"]})
        (item,) = (await caller.done())["output"]
        assert item["content"] == [{"type": "output_text", "text": "one two three"}]
        caller.strict.finish()


async def test_a_response_out_of_band_leaves_the_conversation_alone(echo: Server) -> None:
    async with connected(echo.url) as caller:
        content = [{"type": "input_text", "text": "apart"}]
        await caller.send(
            "response.create",
            response={
                "conversation": "none",
                "output_modalities": ["text"],
                "metadata": {"topic": "aside"},
                "input": [{"type": "message", "role": "user", "content": content}],
            },
        )
        response = await caller.done()
        assert response["metadata"] == {"topic": "aside"}
        assert response["conversation_id"] is None
        (item,) = response["output"]
        assert item["content"][0]["text"] == "apart"
        assert "conversation.item.added" not in caller.strict.types
        caller.strict.finish()


async def test_a_function_is_called_and_its_result_answered_with(scripted: Server) -> None:
    async with connected(scripted.url) as caller:
        await caller.update(tools=[WEATHER], tool_choice="auto")
        await caller.write("How is the weather in Paris?")
        await caller.send("response.create")
        (use,) = (await caller.done())["output"]
        assert (use["type"], use["name"]) == ("function_call", "get_weather")
        assert json.loads(use["arguments"]) == {"city": "Paris"}
        result = {"type": "function_call_output", "call_id": use["call_id"], "output": "rain"}
        await caller.send("conversation.item.create", item=result)
        await caller.send("response.create")
        (answer,) = (await caller.done())["output"]
        assert answer["content"][0]["transcript"] == "It rains in Paris."
        caller.strict.finish()


async def test_a_call_is_made_with_the_session_beside_the_offer(echo: Server) -> None:
    async with called(echo.url, {"type": "realtime", "instructions": "Be brief."}) as caller:
        assert caller.strict.events[0]["session"]["instructions"] == "Be brief."
        caller.microphone.say(tone(caller))
        assert (await caller.done())["status"] == "completed"
        await caller.event("output_audio_buffer.stopped")
        assert max(abs(pcm).max() for _, pcm in caller.heard) > 0.1
        caller.strict.finish()


async def test_a_call_is_followed_led_and_ended_from_its_sideband(echo: Server) -> None:
    async with called(echo.url) as caller:
        call_id = caller.location.rpartition("/")[2]
        async with connected(echo.url, call_id=call_id) as aside:
            await aside.update(instructions="Be brief.")
            assert (await caller.event("session.updated"))["session"]["instructions"] == "Be brief."
            await aside.write(STORY)
            await aside.send("response.create")
            await caller.event("output_audio_buffer.started")
            await aside.send("output_audio_buffer.clear")
            await caller.event("output_audio_buffer.cleared")
            assert (await aside.done())["status"] == "cancelled"
            async with openai(echo.url) as client:
                await client.realtime.calls.hangup(call_id)
            assert await aside.closed == 1000
        assert await caller.closed is None
        caller.strict.finish()
        shared = [event for event in aside.strict.events if event in caller.strict.events]
        assert shared == aside.strict.events[OPENING:]


async def truncate(caller: Caller, item: str, audio_end_ms: int) -> int:
    """Tells what was played of an item; returns what the server made of it."""
    await caller.send(
        "conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=audio_end_ms
    )
    cut = await caller.event("conversation.item.truncated")
    assert cut["item_id"] == item
    return int(cut["audio_end_ms"])


async def transcript(caller: Caller, item: str) -> str:
    """The words of an item, as the server has it."""
    await caller.send("conversation.item.retrieve", item_id=item)
    retrieved = await caller.event("conversation.item.retrieved")
    return str(retrieved["item"]["content"][0]["transcript"])
