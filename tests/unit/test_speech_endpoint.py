"""A voice behind an endpoint: its sound from the first audible sample, its words over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from engine.audio.pcm import to_pcm16
from engine.cascade.speech_endpoint import RATE, SpeechEndpoint
from engine.cascade.stages import Spoken, StageError
from engine.contract import Samples
from tests.unit.endpoints import Reply, Served, endpoint, never

TONE: Samples = np.float32(0.5) * np.sin(np.arange(RATE) / 10, dtype=np.float32)
SILENCE: Samples = np.full(RATE // 2, 0.001, np.float32)


def sends(pcm: Samples, piece: int = 4099) -> Reply:
    """Sends ``pcm`` in pieces of an odd number of bytes."""

    async def reply(response: Any) -> None:
        data = to_pcm16(pcm)
        for at in range(0, len(data), piece):
            await response.write(data[at : at + piece])
            await asyncio.sleep(0.001)

    return reply


@asynccontextmanager
async def voice(
    reply: Reply, status: int = 200, **options: Any
) -> AsyncIterator[tuple[SpeechEndpoint, Served]]:
    async with endpoint("/v1/audio/speech", reply, status) as served:
        speech = SpeechEndpoint(served.url, "some-tts", ("alloy", "echo"), **options)
        await speech.start()
        try:
            yield speech, served
        finally:
            await speech.stop()


async def spoken(reply: Reply, text: str, **options: Any) -> Spoken:
    async with voice(reply, **options) as (speech, _):
        pieces = [piece async for piece in speech.speak(text, "")]
    assert all(not piece.words for piece in pieces[:-1])
    return Spoken(np.concatenate([piece.pcm for piece in pieces]), pieces[-1].words)


async def test_silence_at_the_start_is_cut_and_nothing_else() -> None:
    said = await spoken(sends(np.concatenate([SILENCE, TONE, SILENCE])), "A tone.")
    assert len(said.pcm) == pytest.approx(RATE // 100 + len(TONE) + len(SILENCE), abs=2)
    assert np.allclose(said.pcm[-len(SILENCE) :], 0.001, atol=1e-4)


async def test_words_share_what_can_be_heard_by_their_letters() -> None:
    said = await spoken(sends(np.concatenate([SILENCE, TONE, SILENCE])), "Hello my friends. ")
    assert [word.text for word in said.words] == ["Hello ", "my ", "friends. "]
    heard = len(said.pcm) - len(SILENCE)
    assert [word.end for word in said.words] == [
        pytest.approx(heard * letters / 15, abs=10) for letters in (5, 7, 15)
    ]


async def test_sound_comes_before_the_endpoint_is_done() -> None:
    async def stays(response: Any) -> None:
        await sends(TONE)(response)
        await never(response)

    async with voice(stays) as (speech, served):
        stream = speech.speak("Hello.", "")
        assert len((await anext(stream)).pcm)
        await stream.aclose()
        await asyncio.wait_for(served.left.wait(), 2)


async def test_it_is_asked_for_raw_sound_in_the_voice() -> None:
    async with voice(sends(TONE), key="secret", extra_body={"speed": 1.2}) as (speech, served):
        for name in ("", "echo"):
            assert [piece async for piece in speech.speak("Hello.", name)]
    assert served.keys == ["Bearer secret"] * 2
    assert served.bodies == [
        {
            "model": "some-tts",
            "input": "Hello.",
            "voice": name,
            "response_format": "pcm",
            "speed": 1.2,
        }
        for name in ("alloy", "echo")
    ]


@pytest.mark.parametrize("sound", [SILENCE, SILENCE[:0]])
async def test_an_answer_that_nobody_could_hear_is_a_failure(sound: Samples) -> None:
    with pytest.raises(StageError, match=r"^tts: sent no sound$"):
        await spoken(sends(sound), "Well.")


async def test_a_refusal_is_told_by_its_status_alone() -> None:
    with pytest.raises(StageError, match=r"^tts: answered 429$"):
        await spoken(sends(TONE), "Hello.", status=429)


async def test_an_endpoint_that_says_nothing_is_given_up() -> None:
    with pytest.raises(StageError, match=r"nothing for 0\.1 s"):
        await spoken(never, "Hello.", timeout=0.1)
