"""``parley talk`` and the default engine: a question is understood, and its answer can be heard.

The question comes from a file or from a microphone; the microphone and the loudspeaker are
PulseAudio's null sinks.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from engine.contract import Samples
from engine.weights import Paths
from tests.browser.recognition import found
from tests.conformance.ears import ears
from tests.conftest import Tell
from tests.network.pulse import RATE, Pulse
from tests.network.talking import CONNECTED, Talk
from tests.serving import Server, server
from tests.sounds import error_rate, hibari, read_wav, write_wav

__all__ = ["server"]

QUESTION = "What is the capital of France?"


@pytest.mark.weights
async def test_a_question_in_a_file_is_answered_in_a_file(
    server: Server, weights: Paths, tmp_path: Path, tell: Tell
) -> None:
    question, answer = tmp_path / "question.wav", tmp_path / "answer.wav"
    said = hibari(QUESTION, 44_100)
    write_wav(question, said, 44_100)
    with Talk("--url", server.url, "--file", question, "--save", answer) as talk:
        assert await asyncio.to_thread(talk.end, 120) == (0, "")
    played = read_wav(answer, RATE)
    first = np.flatnonzero(abs(played) > 0.01)[0] / RATE
    assert len(said) / 44_100 < first < len(said) / 44_100 + 15
    await check(talk, played, weights, tell)


@pytest.mark.pulseaudio
@pytest.mark.weights
async def test_a_question_into_the_microphone_is_answered_from_the_loudspeaker(
    server: Server, weights: Paths, tmp_path: Path, tell: Tell
) -> None:
    question = tmp_path / "question.wav"
    write_wav(question, hibari(QUESTION, 44_100), 44_100)
    devices = ("--input", "pulse", "--output", "pulse")
    with Pulse(tmp_path) as pulse:
        with Talk("--url", server.url, *devices, environment=pulse.environment) as talk:
            await asyncio.to_thread(talk.line, CONNECTED)
            await asyncio.to_thread(pulse.play, question)
            await asyncio.to_thread(talk.line, r"parley: .+", 60)
            await quiet(pulse)
            talk.interrupt()
            status, _ = await asyncio.to_thread(talk.end)
        played = pulse.heard()
    assert status == 0
    await check(talk, played, weights, tell)


async def check(talk: Talk, played: Samples, weights: Paths, tell: Tell) -> None:
    """The question is captioned, and the recogniser finds the answer's caption in the sound."""
    assert error_rate(QUESTION, talk.said_by("you")) <= 0.2
    async with ears(weights) as judge:
        heard = await judge.hear(played, RATE)
    right, captioned = found(talk.said_by("parley"), " ".join(heard))
    tell(f"parley talk: {right} of {captioned} captioned words recognised in the reply")
    assert captioned and right >= 0.8 * captioned


async def quiet(pulse: Pulse) -> None:
    """Waits until a reply has been played: there was sound, and two seconds of silence since."""
    async with asyncio.timeout(60):
        while True:
            loud = abs(pulse.heard()) > 0.01
            if loud.any() and not loud[-2 * RATE :].any():
                return
            await asyncio.sleep(0.25)


@pytest.mark.pulseaudio
def test_the_devices_are_listed(tmp_path: Path) -> None:
    with Pulse(tmp_path) as pulse, Talk("--list-devices", environment=pulse.environment) as talk:
        talk.line(r".*\d+ pulse, .*")
        assert talk.end()[0] == 0


@pytest.mark.pulseaudio
def test_a_device_that_is_not_there_is_told(tmp_path: Path) -> None:
    with (
        Pulse(tmp_path) as pulse,
        Talk("--url", "http://host/", "--input", "none", environment=pulse.environment) as talk,
    ):
        status, told = talk.end()
    assert status == 2
    assert told.splitlines()[-1].startswith("parley: sound devices: No input device matching")
