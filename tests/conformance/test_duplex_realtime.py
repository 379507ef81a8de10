"""A stock Realtime client talks with a model that listens and speaks at once.

The model is a tiny random Moshi, whose words are noise, or simulated. Its replies are its own, and
so is their number: what is told of each, and how it ends, is what counts. The random one always
makes sound and has a word at most ticks, so that here only words make a reply and a single tick
without one ends it: replies come and go by themselves. The simulated one says what it hears.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.callers import SOCKET_RATE, Caller
from tests.conformance.openai_python import called, connected
from tests.network.simulated import ends, ready, simulated, tone
from tests.serving import Server

Connect = Callable[[str], AbstractAsyncContextManager[Caller]]

MOSHI = {
    "device": "cpu",
    "dtype": "float32",
    "entries": "float32",
    "slots": 2,
    "tick_ms": 100,  # of 80 ms of sound: its callers hear gaps
    "audible": 100.0,
    "silence_ms": 80,
    "seed": 1,
}
SIMULATED = {"replies": "by_itself", "tick": 1280}

talking: Connect = partial(connected, talks=True)
each_way_in = pytest.mark.parametrize("connect", [talking, called], ids=["websocket", "webrtc"])


@pytest.fixture(
    scope="module",
    params=["simulated", pytest.param("moshi", marks=[pytest.mark.torch, pytest.mark.full])],
)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    served = (
        simulated(folder / "log", **SIMULATED) if request.param == "simulated" else moshi(folder)
    )
    with served as running:
        yield running


class Talkative(Server):
    """A server whose model talks without being talked to."""


def moshi(folder: Path) -> Talkative:
    """A server of the random model, on one thread."""
    from tests.duplex.tiny import SHAPE, with_words

    options = json.dumps({"model": str(with_words(folder, SHAPE)), **MOSHI})
    engine = ("--engine.name", "duplex", "--engine.options", options)
    return Talkative(*engine, log=folder / "log", environment={"OMP_NUM_THREADS": "1"})


async def reply(caller: Caller, server: Server, seconds: float = 0.6) -> str:
    """The next reply that begins; the simulated model has to hear something.

    The other is slower than its callers: on a socket, what they sent would wait behind their sound.
    """
    caller.microphone.muted = isinstance(server, Talkative)
    if not caller.microphone.muted:
        caller.microphone.say(tone(caller, seconds))
    return str((await caller.event("response.created"))["response"]["id"])


@each_way_in
async def test_what_the_model_says_comes_as_responses_that_nobody_asked_for(
    connect: Connect, server: Server
) -> None:
    async with connect(server.url) as caller:
        session = caller.strict.events[0]["session"]
        assert session["audio"]["input"]["transcription"] is None
        assert await caller.update(tracing="auto") == session | {"tracing": "auto"}
        for _ in range(2):
            began = await reply(caller, server)
            response = await caller.done()
            assert (response["id"], response["status"]) == (began, "completed")
            (item,) = response["output"]
            assert (item["role"], item["status"]) == ("assistant", "completed")
            (part,) = item["content"]
            assert part["type"] == "output_audio" and part["transcript"]
            if caller.strict.paced:
                await caller.event("output_audio_buffer.stopped")
            else:
                assert np.frombuffer(caller.strict.sound[item["id"]], "<i2").any()
        if caller.strict.paced:
            assert any(pcm.any() for _, pcm in caller.heard)
        told = set(caller.strict.types)
        assert not told & {"error", "input_audio_buffer.speech_started"}


async def test_a_response_comes_no_faster_than_it_is_spoken(server: Server) -> None:
    began = time.monotonic()
    async with talking(server.url) as caller:
        await reply(caller, server, 1.5)
        (item,) = (await caller.done())["output"]
        samples = len(caller.strict.sound[item["id"]]) // 2
        assert 0 < samples / SOCKET_RATE < time.monotonic() - began


@each_way_in
async def test_a_response_that_is_cancelled_is_muted_and_a_later_one_is_whole(
    connect: Connect, server: Server
) -> None:
    async with connect(server.url) as caller:
        began = await reply(caller, server)
        await caller.event("response.content_part.added")
        await caller.send("response.cancel")
        response = await caller.done()
        assert (response["id"], response["status"]) == (began, "cancelled")
        assert response["status_details"]["reason"] == "client_cancelled"
        assert [item["status"] for item in response["output"]] == ["incomplete"]
        await caller.microphone.spoken()
        await asyncio.sleep(0.6)
        assert await reply(caller, server) != began
        assert (await caller.done())["status"] == "completed"
        assert "error" not in caller.strict.types


async def test_a_track_that_is_cleared_is_silent_until_the_model_has_paused(
    server: Server,
) -> None:
    async with called(server.url) as caller:
        began = await reply(caller, server, 1.0)
        await caller.event("output_audio_buffer.started")
        await caller.send("output_audio_buffer.clear")
        response = await caller.done()
        assert (response["id"], response["status"]) == (began, "cancelled")
        cleared = await caller.event("output_audio_buffer.cleared")
        assert cleared["response_id"] == began
        await caller.microphone.spoken()
        await asyncio.sleep(0.6)
        assert await reply(caller, server) != began
        await caller.event("output_audio_buffer.started")
        assert (await caller.done())["status"] == "completed"


async def test_the_floor_is_the_models_and_whoever_asks_for_it_is_refused_by_name(
    server: Server,
) -> None:
    typed = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    asked: dict[str, dict[str, Any]] = {
        "response.create": {},
        "conversation.item.create": {"item": typed},
        "input_audio_buffer.commit": {},
    }
    async with talking(server.url) as caller:
        await reply(caller, server, 1.5)
        for kind, fields in asked.items():
            await caller.send(kind, event_id=f"my {kind}", **fields)
            error = (await caller.event("error"))["error"]
            assert (error["type"], error["event_id"]) == ("invalid_request_error", f"my {kind}")
            assert error["param"] in ("type", "item")
        await caller.done()
        await reply(caller, server)
        ended = [e["response"] for e in caller.strict.events if e["type"] == "response.done"]
        assert {response["status"] for response in ended} == {"completed"}
        added = [e for e in caller.strict.events if e["type"] == "conversation.item.added"]
        assert {event["item"]["role"] for event in added} == {"assistant"}
        assert "input_audio_buffer.committed" not in caller.strict.types


async def test_a_role_holds_from_the_beginning_and_another_is_refused_by_name(
    server: Server,
) -> None:
    async with talking(server.url) as caller:
        session = await caller.update(tracing="auto")
        role = {"type": "realtime", "instructions": "Be somebody else."}
        await caller.send("session.update", event_id="mine", session=role)
        error = (await caller.event("error"))["error"]
        assert (error["param"], error["event_id"]) == ("session.instructions", "mine")
        assert await caller.update() == session
        await reply(caller, server)
        assert (await caller.done())["status"] == "completed"


async def test_a_killed_engine_is_told_and_the_next_caller_is_served(server: Server) -> None:
    async with talking(server.url) as caller:
        began = await reply(caller, server, 3.0)
        os.kill(server.engine_pid, signal.SIGKILL)
        error = (await caller.event("error"))["error"]
        assert (error["type"], error["code"]) == ("server_error", "engine_lost")
        async with asyncio.timeout(15):
            assert await caller.closed == 1011
        caller.strict.finish()
        ended = [e["response"] for e in caller.strict.events if e["type"] == "response.done"]
        assert ended[-1]["status"] == "failed" or ended[-1]["id"] != began
    await ready(server, 60.0)
    async with talking(server.url) as caller:
        await reply(caller, server)


async def test_the_end_of_the_longest_session_is_told(tmp_path: Path) -> None:
    with simulated(tmp_path / "log", **SIMULATED, longest_session=2.0) as server:
        async with talking(server.url) as caller:
            expires = caller.strict.events[0]["session"]["expires_at"]
            assert 0 < expires - time.time() <= 2.0
            await reply(caller, server, 3.0)
            assert (await caller.done())["status"] == "cancelled"
            error = (await caller.event("error"))["error"]
            assert (error["type"], error["code"]) == ("invalid_request_error", "session_expired")
            async with asyncio.timeout(15):
                assert await caller.closed == 1000
            caller.strict.finish()
        assert ends(server) == ["session_expired"]
