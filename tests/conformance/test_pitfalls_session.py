"""Settings and sessions, where other servers went wrong (docs/pitfalls.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

import pytest
from aiohttp import ClientSession

from tests.callers import Caller, socket
from tests.conformance.bursts import (
    COMPLETED,
    append,
    eager,
    listen_by_hand,
    say,
    silence,
    tone,
)
from tests.network.simulated import ends, free, simulated, until
from tests.serving import Server

FLAT = {
    "modalities",
    "voice",
    "input_audio_format",
    "output_audio_format",
    "input_audio_transcription",
    "turn_detection",
    "max_response_output_tokens",
    "temperature",
}
"""Fields of the retired beta session."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with simulated(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


async def text_tokens(caller: Caller) -> int:
    """The words that the next reply is made from."""
    await caller.write("hello")
    await caller.send("response.create", response={"output_modalities": ["text"]})
    usage = (await caller.done())["usage"]
    return int(usage["input_token_details"]["text_tokens"])


async def test_a_session_is_nested_and_says_its_type(server: Server) -> None:
    """P3."""
    async with socket(server.url) as caller:
        for session in (caller.strict.events[0]["session"], await caller.update()):
            assert session["type"] == "realtime"
            assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}
            assert not FLAT & session.keys()


async def test_each_update_is_answered_once_and_holds_before_the_sound_behind_it(
    server: Server,
) -> None:
    """P4, P11: nothing is judged by settings that were about to change."""
    async with eager(server.url) as caller:
        for session in (
            {"instructions": "Be brief."},
            {"audio": {"input": {"turn_detection": None}}},
            {"tracing": "auto"},
        ):
            await caller.send("session.update", session={"type": "realtime", **session})
        await append(caller, tone(0.6) + silence(0.7))
        await caller.send("input_audio_buffer.commit")
        await caller.event("input_audio_buffer.committed")
        assert "input_audio_buffer.speech_started" not in caller.strict.types
        shown = [e["session"] for e in caller.strict.events if e["type"] == "session.updated"]
        assert len(shown) == 3
        session = shown[-1]
        assert session["audio"]["input"]["turn_detection"] is None
        assert (session["instructions"], session["tracing"]) == ("Be brief.", "auto")


async def test_absent_keeps_null_and_a_piece_is_merged_into_its_kind(server: Server) -> None:
    """P11, P12, P13."""
    async with socket(server.url) as caller:
        before = caller.strict.events[0]["session"]["audio"]["input"]["turn_detection"]
        piece = {"threshold": 0.25, "create_response": False}
        session = await caller.update(audio={"input": {"turn_detection": piece}})
        assert session["audio"]["input"]["turn_detection"] == before | piece
        await listen_by_hand(caller)
        session = await caller.update(audio={"input": {"noise_reduction": None}})
        assert session["audio"]["input"]["turn_detection"] is None
        detection = {"audio": {"input": {"turn_detection": piece}}}
        await caller.send("session.update", session={"type": "realtime", **detection})
        error = (await caller.event("error"))["error"]
        assert error["param"] == "session.audio.input.turn_detection.type"


async def test_new_instructions_hold_for_the_next_response(server: Server) -> None:
    """P34."""
    async with socket(server.url) as caller:
        await caller.update(instructions="")
        none = await text_tokens(caller)
        await caller.update(instructions="Answer as a pirate would")
        assert await text_tokens(caller) == none + 1 + 1 + 5


@pytest.mark.parametrize("busy", [False, True])
async def test_a_client_that_disconnects_is_no_fault(server: Server, busy: bool) -> None:
    """P34: amid a reply or not; its goodbye is heard, and nobody waits for it to come back."""
    before = server.metric("parley_faults_total")
    async with socket(server.url) as caller:
        if busy:
            await caller.write("wonderful " * 60)
            await caller.send("response.create")
            await caller.event("response.output_audio.delta")
    await free(server, 15.0)
    assert server.metric("parley_faults_total") == before
    assert not [line for line in server.log_lines() if line["level"] == "error"]
    async with socket(server.url) as caller:
        await say(caller)
        assert (await caller.done())["status"] == "completed"


async def test_a_session_may_be_sent_back_as_it_came(server: Server) -> None:
    """P35: with what only the server writes, and what a beta client would add."""
    async with socket(server.url) as caller:
        session = caller.strict.events[0]["session"]
        secret = {"client_secret": {"value": "none", "expires_at": 0}}
        assert await caller.update(**(session | secret)) == session


async def test_a_voice_is_echoed_as_it_was_spelled(server: Server) -> None:
    """P33."""
    async with socket(server.url) as caller:
        for voice in ("marin", "high", {"id": "cedar"}):
            session = await caller.update(audio={"output": {"voice": voice}})
            spelled = voice["id"] if isinstance(voice, dict) else voice
            assert session["audio"]["output"]["voice"] == spelled
        await caller.send("response.create", response={"input": []})
        created = (await caller.event("response.created"))["response"]
        assert created["audio"]["output"]["voice"] == "cedar"


async def test_a_transcription_session_has_its_model_where_it_transcribes(server: Server) -> None:
    """P28: and not the flat one of the beta. A name that transcribes nothing is told its place."""
    asked = "?intent=transcription&model="
    async with eager(server.url, f"{asked}gpt-4o-transcribe") as caller:
        session = (await caller.event("session.created"))["session"]
        assert (session["type"], session["object"]) == (
            "transcription",
            "realtime.transcription_session",
        )
        assert session["audio"]["input"]["transcription"]["model"] == "gpt-4o-transcribe"
        assert not {"model", "input_audio_format"} & session.keys()
        await say(caller)
        assert (await caller.event(COMPLETED))["transcript"] == "turn 1"
        await caller.send("response.create", event_id="mine")
        assert (await caller.event("error"))["error"]["event_id"] == "mine"
        assert not [kind for kind in caller.strict.types if kind.startswith("response.")]
    address = urljoin(server.url, "v1/realtime") + f"{asked}gpt-realtime"
    async with ClientSession() as web, web.ws_connect(address) as ws:
        error = (await ws.receive_json(timeout=15))["error"]
        assert error["param"] == "session.audio.input.transcription.model"
        await ws.receive(timeout=15)
        assert ws.close_code == 1008


async def test_a_client_need_neither_name_a_model_nor_send_settings(server: Server) -> None:
    """The model that had to be named, and the 30 seconds in which settings had to come."""
    async with socket(server.url) as caller:
        assert caller.strict.events[0]["session"]["model"]
        await say(caller)
        assert (await caller.done())["status"] == "completed"
        assert "session.updated" not in caller.strict.types


async def test_a_commit_and_a_cancel_end_no_session(server: Server) -> None:
    """The one turn after which the socket was closed."""
    async with socket(server.url) as caller:
        await listen_by_hand(caller)
        for _ in range(2):
            await append(caller, tone(0.2))
            await caller.send("input_audio_buffer.commit")
            await caller.send("response.create")
            await caller.send("response.cancel")
            assert (await caller.done())["status"] in ("cancelled", "completed")
        assert not caller.closed.done()


async def test_several_are_served_at_once(server: Server) -> None:
    """The one session at a time."""
    async with socket(server.url) as one, socket(server.url) as two:
        for caller in (one, two):
            await say(caller)
        for caller in (one, two):
            assert (await caller.done())["status"] == "completed"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose sessions are short."""
    limits = ("--limits.idle", "2", "--limits.session", "5")
    with simulated(tmp_path_factory.mktemp("hasty") / "log", *limits) as running:
        yield running


async def test_pings_keep_no_idle_session(hasty: Server) -> None:
    """The idle limit."""
    async with ClientSession() as web, web.ws_connect(urljoin(hasty.url, "v1/realtime")) as ws:
        told: list[Any] = []

        async def ping() -> None:
            while True:
                await ws.ping()
                await asyncio.sleep(0.2)

        pinging = asyncio.create_task(ping())
        async with asyncio.timeout(15):
            async for message in ws:
                told.append(message.json())
        pinging.cancel()
        await asyncio.gather(pinging, return_exceptions=True)
        assert told[-1]["error"]["code"] == "idle_timeout"
        assert ws.close_code == 1000
    assert ends(hasty)[-1] == "idle_timeout"


async def test_a_session_that_ends_by_its_age_says_so(hasty: Server) -> None:
    """The end without a word, and the longest session. It leaves no task behind."""
    tasks = hasty.metric("parley_tasks")
    async with socket(hasty.url) as caller:
        expires = caller.strict.events[0]["session"]["expires_at"]
        assert expires > 0
        with suppress(ConnectionError):
            while not caller.closed.done():
                await caller.send("input_audio_buffer.clear")
                await asyncio.sleep(0.2)
        error = (await caller.event("error"))["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "session_expired")
        assert await caller.closed == 1000
    await until(lambda: hasty.metric("parley_tasks") <= tasks, 15)
