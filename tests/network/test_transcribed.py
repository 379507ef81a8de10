"""Realtime beside a model that listens and speaks at once: what its callers see of their words."""

from __future__ import annotations

import json
from pathlib import Path

from tests.callers import Caller
from tests.conformance.bursts import COMPLETED
from tests.network.simulated import free, ready, simulated, talking, tone, until
from tests.serving import Server

WORDS = {"input": {"transcription": {"model": "whisper-1"}}}


def model(log: Path, places: int) -> Server:
    """A server of a simulated model, with so many places for transcripts."""
    options = json.dumps({"capacity": places})
    beside = ("--engine.transcriber.name", "simulated", "--engine.transcriber.options", options)
    return simulated(log, *beside, replies="by_itself", tick=1920, input_rate=24_000)


def answers(caller: Caller) -> list[str]:
    """How the responses that are done ended."""
    done = [event for event in caller.strict.events if event["type"] == "response.done"]
    return [event["response"]["status"] for event in done]


async def test_callers_see_their_words_and_who_has_no_place_is_told_and_talks_on(
    tmp_path: Path,
) -> None:
    with model(tmp_path / "log", places=1) as server:
        await ready(server)
        async with talking(server.url) as heard:
            await heard.update(audio=WORDS)
            async with talking(server.url) as deaf:
                await deaf.update(audio=WORDS)
                assert (await deaf.event("error"))["error"]["code"] == "transcripts_shed"
                deaf.microphone.say(tone(deaf))
                assert (await deaf.done())["status"] == "completed"
            heard.microphone.say(tone(heard))
            began = await heard.event("input_audio_buffer.speech_started")
            said = await heard.event(COMPLETED)
            assert (said["item_id"], said["transcript"]) == (began["item_id"], "turn 1")
            await until(lambda: bool(answers(heard)), within=15.0)
            assert answers(heard) == ["completed"], "the model yields by itself, and is not cut"
        await free(server, 15.0)
        await until(
            lambda: server.metric("parley_engine", figure="transcripts_shed") == 1, within=15.0
        )
        assert server.metric("parley_faults_total", code="transcripts_shed") == 1
