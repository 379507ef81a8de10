"""Items, responses and truncation, where other servers went wrong (docs/pitfalls.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from openai.types.realtime import RealtimeServerEvent

from server.protocol.event import ServerEvent
from server.protocol.realtime import events
from tests.callers import Caller, socket
from tests.conformance.bursts import COMPLETED, append, say, silence, tone
from tests.network.simulated import simulated
from tests.serving import Server

LONG = "wonderful " * 60
"""Half a minute of a simulated voice: more than it runs ahead, so its response stays active."""
SHORT = "one two three four five"
BETA = {
    "conversation.item.created",
    "response.audio.delta",
    "response.audio.done",
    "response.audio_transcript.delta",
    "response.audio_transcript.done",
    "response.text.delta",
    "response.text.done",
    "transcription_session.created",
    "transcription_session.updated",
}
HARMLESS = {"response_cancel_not_active", "conversation_already_has_active_response"}
"""Codes by which clients know a race; any other error ends some of them."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with simulated(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


async def told(caller: Caller, text: str) -> dict[str, Any]:
    """Has ``text`` echoed aloud; returns the response once it is made."""
    await caller.write(text)
    await caller.send("response.create")
    return await caller.done()


async def begun(caller: Caller) -> str:
    """Has a long reply begin; returns its item."""
    await caller.write(LONG)
    await caller.send("response.create")
    return str((await caller.event("response.output_item.added"))["item"]["id"])


async def truncate(caller: Caller, item: str, audio_end_ms: int, **fields: Any) -> None:
    fields |= {"item_id": item, "content_index": 0, "audio_end_ms": audio_end_ms}
    await caller.send("conversation.item.truncate", **fields)


async def transcript_of(caller: Caller, item: str) -> Any:
    await caller.send("conversation.item.retrieve", item_id=item)
    kept = (await caller.event("conversation.item.retrieved"))["item"]
    return kept["content"][0]["transcript"]


async def test_every_item_is_added_and_then_done_whoever_made_it(server: Server) -> None:
    """P1."""
    async with socket(server.url) as caller:
        await say(caller)
        await caller.done()
        await told(caller, SHORT)
        told_of: dict[str, list[str]] = {}
        for event in caller.strict.events:
            if event["type"].startswith("conversation.item.") and "item" in event:
                told_of.setdefault(event["item"]["id"], []).append(event["type"])
        added_and_done = ["conversation.item.added", "conversation.item.done"]
        assert list(told_of.values()) == 4 * [added_and_done]


def test_the_server_has_no_event_of_the_retired_beta() -> None:
    """P2."""
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type)]
    ours = {kind.__struct_config__.tag for kind in kinds if issubclass(kind, ServerEvent)} - {None}
    union, *_ = get_args(RealtimeServerEvent)
    stock = {get_args(kind.model_fields["type"].annotation)[0] for kind in get_args(union)}
    assert len(ours) > 30
    assert not ours & BETA
    assert ours <= stock


async def test_a_second_response_is_refused_by_its_event_and_the_first_goes_on(
    server: Server,
) -> None:
    """P6: active ends with ``response.done``, not with the wish to cancel."""
    async with socket(server.url) as caller:
        await begun(caller)
        await caller.send("response.create", event_id="second")
        error = (await caller.event("error"))["error"]
        assert error["code"] == "conversation_already_has_active_response"
        assert error["event_id"] == "second"
        await caller.event("response.output_audio_transcript.delta")
        assert "response.done" not in caller.strict.types
        await caller.send("response.cancel")
        await caller.send("response.create")
        assert (await caller.done())["status"] == "cancelled"
        await caller.event("response.created")
        assert caller.strict.types.count("error") == 1


async def test_a_cut_a_little_beyond_the_sound_is_a_cut_at_its_end(server: Server) -> None:
    """P7: and one far beyond is an error after which replies go on."""
    async with socket(server.url) as caller:
        item = (await told(caller, SHORT))["output"][0]["id"]
        made_ms = len(caller.strict.sound[item]) // 48
        await truncate(caller, item, made_ms + 150)
        assert (await caller.event("conversation.item.truncated"))["audio_end_ms"] == made_ms
        assert await transcript_of(caller, item) == SHORT
        await truncate(caller, item, made_ms + 1000, event_id="far")
        error = (await caller.event("error"))["error"]
        assert (error["event_id"], error["param"]) == ("far", "audio_end_ms")
        assert f"{made_ms}ms is already shorter than" in error["message"]
        assert (await told(caller, SHORT))["status"] == "completed"


async def test_a_reply_cut_before_it_is_heard_says_nothing_however_long_it_goes_on(
    server: Server,
) -> None:
    """P8, P9: what comes of it later is not heard either."""
    async with socket(server.url) as caller:
        item = await begun(caller)
        await truncate(caller, item, 0)
        assert (await caller.event("conversation.item.truncated"))["audio_end_ms"] == 0
        await caller.event("response.output_audio_transcript.delta")
        assert await transcript_of(caller, item) == ""
        await caller.send("response.cancel")
        assert (await caller.done())["status"] == "cancelled"
        assert await transcript_of(caller, item) == ""
        await caller.send("response.create", response={"output_modalities": ["text"]})
        assert (await caller.done())["status"] == "completed"
        assert "error" not in caller.strict.types


async def test_what_has_no_sound_cannot_be_cut(server: Server) -> None:
    """P8: an error, and nothing else happens."""
    async with socket(server.url) as caller:
        await caller.write(SHORT)
        mine = caller.strict.events[-1]["item"]["id"]
        await caller.send("response.create", response={"output_modalities": ["text"]})
        (written,) = (await caller.done())["output"]
        for item in (mine, written["id"], "item_nowhere"):
            await truncate(caller, item, 0, event_id=item)
            assert (await caller.event("error"))["error"]["event_id"] == item
        assert "conversation.item.truncated" not in caller.strict.types
        assert (await told(caller, SHORT))["status"] == "completed"


async def test_a_conversation_with_its_usual_races_brings_no_error(server: Server) -> None:
    """P10: some clients end with any error."""
    async with socket(server.url) as caller:
        await caller.send("input_audio_buffer.clear")
        await caller.update(tracing="auto")
        item = await begun(caller)
        await append(caller, tone(0.6))
        assert (await caller.done())["status"] == "cancelled"
        await truncate(caller, item, 0)
        await caller.event("conversation.item.truncated")
        await append(caller, silence(0.7))
        assert (await caller.done())["status"] == "completed"
        for event in list(caller.strict.events):
            if event["type"] == "conversation.item.done":
                item = event["item"]["id"]
                await caller.send("conversation.item.retrieve", item_id=item)
                await caller.event("conversation.item.retrieved")
        assert "error" not in caller.strict.types
        await begun(caller)
        await caller.send("response.create")
        await caller.send("response.cancel")
        await caller.send("response.cancel")
        await caller.done()
        await caller.update()
        errors = [e["error"]["code"] for e in caller.strict.events if e["type"] == "error"]
        assert len(errors) == 2
        assert set(errors) == HARMLESS


async def test_a_cancelled_reply_takes_neither_the_turn_nor_its_transcript_along(
    server: Server,
) -> None:
    """P17."""
    async with socket(server.url) as caller:
        await say(caller, 15)
        turn = (await caller.event("input_audio_buffer.committed"))["item_id"]
        await caller.event("response.output_audio.delta")
        await caller.send("response.cancel")
        done = await caller.done()
        assert done["status"] == "cancelled"
        heard = next(event for event in caller.strict.events if event["type"] == COMPLETED)
        assert (heard["item_id"], heard["transcript"]) == (turn, "turn 1")
        assert await transcript_of(caller, turn) == "turn 1"
        (reply,) = done["output"]
        assert await transcript_of(caller, reply["id"]) == reply["content"][0]["transcript"]


@pytest.mark.parametrize(("law", "bytes_per_ms"), [("pcm", 48), ("pcmu", 8), ("pcma", 8)])
async def test_milliseconds_of_a_cut_are_those_of_the_format(
    server: Server, law: str, bytes_per_ms: int
) -> None:
    """P32."""
    async with socket(server.url) as caller:
        await caller.update(audio={"output": {"format": {"type": f"audio/{law}"}}})
        item = (await told(caller, SHORT))["output"][0]["id"]
        made_ms = len(caller.strict.sound[item]) / bytes_per_ms
        assert made_ms == pytest.approx(len(SHORT) * 40, abs=5)
        await truncate(caller, item, 330)
        assert (await caller.event("conversation.item.truncated"))["audio_end_ms"] == 330
        assert await transcript_of(caller, item) == "one two"
        await truncate(caller, item, round(made_ms) + 300)
        assert (await caller.event("error"))["error"]["param"] == "audio_end_ms"
