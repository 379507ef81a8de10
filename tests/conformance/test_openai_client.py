"""OpenAI's own client holds a conversation with the server and its default engine."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.weights import Paths
from tests.callers import SOCKET_RATE, Caller
from tests.conformance.ears import ears, share_heard
from tests.conformance.openai_python import connected
from tests.conformance.scripted_brain import Say, address, brain
from tests.serving import Server, server
from tests.sounds import error_rate, hibari, librivox, words

__all__ = ["server"]
pytestmark = pytest.mark.weights


async def sounds_as_written(caller: Caller, response: dict[str, Any], weights: Paths) -> None:
    """The sound of a response says what its transcript does."""
    (item,) = response["output"]
    written = words(item["content"][0]["transcript"])
    sound = np.frombuffer(caller.strict.sound[item["id"]], "<i2").astype(np.float32)
    async with ears(weights) as judge:
        heard = await judge.hear(sound / np.float32(32768), SOCKET_RATE)
    assert share_heard(written, heard) >= 0.8, f"wrote {written}, sounds like {heard}"


async def test_a_typed_turn_is_answered_aloud(server: Server, weights: Paths) -> None:
    async with connected(server.url) as caller:
        await caller.write("What is the capital of France?")
        await caller.send("response.create")
        response = await caller.done()
        assert response["status"] == "completed"
        await sounds_as_written(caller, response, weights)
        caller.strict.finish()


@pytest.mark.recordings
async def test_recorded_speech_in_real_time_is_a_turn_and_is_answered(
    server: Server, weights: Paths
) -> None:
    clip = min(librivox(SOCKET_RATE), key=lambda clip: clip.seconds)
    async with connected(server.url, talks=True) as caller:
        await caller.update(
            audio={
                "input": {
                    "turn_detection": {"type": "server_vad", "silence_duration_ms": 600},
                    "transcription": {"model": "gpt-4o-mini-transcribe"},
                }
            }
        )
        caller.microphone.say(clip.pcm)
        started = await caller.event("input_audio_buffer.speech_started")
        stopped = await caller.event("input_audio_buffer.speech_stopped")
        length = (stopped["audio_end_ms"] - started["audio_start_ms"]) / 1000
        assert clip.seconds - 1.0 < length < clip.seconds + 2.0
        await caller.event("input_audio_buffer.committed")
        response = await caller.done()
        assert response["status"] == "completed"
        kind = "conversation.item.input_audio_transcription.completed"
        (heard,) = [event for event in caller.strict.events if event["type"] == kind]
        assert heard["item_id"] == started["item_id"]
        assert error_rate(clip.text, heard["transcript"]) <= 0.2
        await sounds_as_written(caller, response, weights)
        caller.strict.finish()


async def test_a_turn_committed_by_hand_is_answered_when_asked_for(
    server: Server, weights: Paths
) -> None:
    async with connected(server.url) as caller:
        await caller.update(audio={"input": {"turn_detection": None}})
        sound = hibari("How do you make a good cup of coffee?", SOCKET_RATE)
        pcm = (sound * 32767).round().astype("<i2").tobytes()
        for at in range(0, len(pcm), 1920):
            audio = base64.b64encode(pcm[at : at + 1920]).decode()
            await caller.send("input_audio_buffer.append", audio=audio)
        await caller.send("input_audio_buffer.commit")
        item = (await caller.event("conversation.item.done"))["item"]
        assert (item["type"], item["role"]) == ("message", "user")
        await caller.send("response.create")
        response = await caller.done()
        assert response["status"] == "completed"
        assert "input_audio_buffer.speech_started" not in caller.strict.types
        await sounds_as_written(caller, response, weights)
        caller.strict.finish()


async def test_speech_interrupts_a_reply_and_the_client_says_what_was_played(
    weights: Paths, tmp_path: Path
) -> None:
    url = address()
    count = Say("one two three four five six seven eight nine ten " * 10, pace=0.3)
    model = ("--engine.llm.url", url, "--engine.llm.model", "scripted")
    with Server(*model, log=tmp_path / "log") as running:
        async with (
            brain(url, count, Say("Yes?")),
            connected(running.url, talks=True) as caller,
        ):
            await caller.write("Please count.")
            await caller.send("response.create")
            item = (await caller.event("response.output_audio.delta"))["item_id"]
            caller.microphone.say(3 * hibari("Please stop counting now.", SOCKET_RATE))
            await caller.event("input_audio_buffer.speech_started")
            await caller.send(
                "conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=400
            )
            counting = await caller.done()
            assert counting["status"] == "cancelled"
            assert counting["status_details"]["reason"] == "turn_detected"
            assert (await caller.done())["status"] == "completed"
            assert caller.strict.types.count("conversation.item.truncated") == 1
            caller.strict.finish()


async def test_a_cancelled_response_ends_as_such_and_the_next_is_made(server: Server) -> None:
    async with connected(server.url) as caller:
        await caller.write("Tell me a long story about a dog and a cat.")
        await caller.send("response.create")
        await caller.event("response.created")
        await caller.send("response.cancel")
        cancelled = await caller.done()
        assert cancelled["status"] == "cancelled"
        assert cancelled["status_details"]["reason"] == "client_cancelled"
        await caller.send("response.create", response={"output_modalities": ["text"]})
        (item,) = (await caller.done())["output"]
        assert item["content"][0]["text"]
        caller.strict.finish()


async def test_an_error_names_the_event_at_fault_and_the_session_goes_on(server: Server) -> None:
    async with connected(server.url) as caller:
        await caller.send("conversation.item.truncate", event_id="event_mine", item_id="item_x")
        error = (await caller.event("error"))["error"]
        assert (error["type"], error["event_id"]) == ("invalid_request_error", "event_mine")
        assert error["param"] == "content_index"
        await caller.send("response.cancel", event_id="event_mine_2")
        error = (await caller.event("error"))["error"]
        assert (error["code"], error["event_id"]) == ("response_cancel_not_active", "event_mine_2")
        assert (await caller.update(instructions="Be brief."))["instructions"] == "Be brief."
