"""Sessions that only listen: from the address to the last ``completed``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

from tests.callers import socket
from tests.conformance.fake_session import Bench
from tests.network.simulated import simulated, tone
from tests.serving import Server, server
from tests.sounds import hibari

__all__ = ["server"]

TRANSCRIPTION = "conversation.item.input_audio_transcription"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that hears what it was told beforehand."""
    said = ("one two three", "", "four")
    log = tmp_path_factory.mktemp("simulated") / "log"
    with simulated(log, "--greeting", "Hello.", transcripts=said, languages=("en",)) as running:
        yield running


def send(bench: Bench, kind: str, **fields: Any) -> list[Any]:
    return list(bench.send(json.dumps({"type": kind, "event_id": "mine", **fields})))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("response.create", {}),
        ("response.cancel", {}),
        ("output_audio_buffer.clear", {}),
        (
            "conversation.item.create",
            {"item": {"type": "message", "role": "user", "content": []}},
        ),
        (
            "conversation.item.truncate",
            {"item_id": "item_1", "content_index": 0, "audio_end_ms": 0},
        ),
    ],
)
def test_what_only_a_conversation_has_is_refused_by_its_name(
    kind: str, fields: dict[str, Any]
) -> None:
    (answer,) = send(Bench(kind="transcription"), kind, **fields)
    assert (answer["error"]["param"], answer["error"]["event_id"]) == ("type", "mine")
    assert kind in answer["error"]["message"]


@pytest.mark.parametrize("kind", ["realtime", "transcription"])
def test_a_session_keeps_its_type(kind: Any) -> None:
    other = {"realtime": "transcription", "transcription": "realtime"}[kind]
    bench = Bench(kind=kind)
    (answer,) = send(bench, "session.update", session={"type": other})
    assert answer["error"]["param"] == "session.type"
    assert send(bench, "session.update", session={"type": kind}) == []


def test_an_update_of_a_session_that_listens() -> None:
    bench = Bench(kind="transcription")
    heard = {"turn_detection": None, "transcription": {"model": "whisper-1", "prompt": "names"}}
    session = {"type": "transcription", "audio": {"input": heard}}
    assert send(bench, "session.update", session=session) == []
    bench.session.apply()
    shown = bench.client.events[-1]["session"]["audio"]["input"]
    assert shown["turn_detection"] is None
    assert shown["transcription"] == {"model": "whisper-1", "prompt": "names"}
    item = bench.session.speak()
    bench.session.transcribe(item, "ja ", "nein")
    assert bench.client.types[-1] == f"{TRANSCRIPTION}.completed"


async def first(url: str, query: str) -> tuple[dict[str, Any], int | None]:
    """The first event of a socket at ``query``, and the close code if it was closed then."""
    async with ClientSession() as web, web.ws_connect(urljoin(url, f"v1/realtime?{query}")) as ws:
        event = json.loads((await ws.receive(15)).data)
        return event, await _closed(ws) if event["type"] == "error" else None


async def _closed(ws: ClientWebSocketResponse) -> int | None:
    assert (await ws.receive(15)).type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING)
    return ws.close_code


async def test_a_model_in_the_address_is_the_one_that_transcribes(script: Server) -> None:
    event, _ = await first(script.url, "intent=transcription&model=gpt-realtime-whisper")
    heard = event["session"]["audio"]["input"]
    assert event["session"]["type"] == "transcription"
    assert heard["transcription"]["model"] == "gpt-realtime-whisper"


async def test_a_conversations_model_in_the_address_is_refused_with_the_reason(
    script: Server,
) -> None:
    event, code = await first(script.url, "intent=transcription&model=gpt-realtime")
    assert event["error"]["param"] == "session.audio.input.transcription.model"
    assert "converses" in event["error"]["message"]
    assert code == 1008


async def test_nobody_is_greeted_or_answered_and_nothing_is_no_words(script: Server) -> None:
    async with socket(script.url, talks=True, query="intent=transcription") as caller:
        items = []
        for _ in range(3):
            caller.microphone.say(tone(caller))
            await caller.microphone.spoken()
            items.append((await caller.event("input_audio_buffer.speech_stopped"))["item_id"])
        completed = await caller.event(f"{TRANSCRIPTION}.completed")
        assert (completed["item_id"], completed["transcript"]) == (items[2], "four")
        assert completed["usage"]["seconds"] > 0
        assert not [kind for kind in caller.strict.types if kind.startswith("response.")]
        done = [e["item_id"] for e in caller.strict.events if e["type"].endswith("completed")]
        assert done == [items[0], items[2]]


async def test_a_language_nobody_here_understands_is_refused_at_once(script: Server) -> None:
    async with socket(script.url, query="intent=transcription") as caller:
        heard = {"input": {"transcription": {"language": "de"}}}
        session = {"type": "transcription", "audio": heard}
        await caller.send("session.update", session=session)
        refusal = (await caller.event("error"))["error"]
        assert refusal["param"] == "session.audio.input.transcription.language"


@pytest.mark.weights
async def test_words_come_while_they_are_spoken_and_stay(server: Server) -> None:
    text = "We go to the harbour in the morning and look at the ships that come from the sea."
    async with socket(server.url, talks=True, query="intent=transcription") as caller:
        caller.microphone.say(hibari(text, caller.microphone.rate))
        stopped = await caller.event("input_audio_buffer.speech_stopped", 30)
        completed = await caller.event(f"{TRANSCRIPTION}.completed", 30)
        kinds = caller.strict.types
        before = kinds[: kinds.index("input_audio_buffer.speech_stopped")]
        assert f"{TRANSCRIPTION}.delta" in before
        assert completed["item_id"] == stopped["item_id"]
        assert "harbo" in completed["transcript"].lower()
        assert 3 < completed["usage"]["seconds"] < 12
