"""``parley talk`` with a microphone and a loudspeaker, which are PulseAudio's null sinks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.weights import Paths
from tests.browser.recognition import found
from tests.conformance.ears import ears
from tests.conftest import Tell
from tests.network.pulse import RATE, Pulse
from tests.network.talking import CONNECTED, Talk
from tests.serving import Server, server
from tests.sounds import error_rate, hibari, write_wav

__all__ = ["server"]

pytestmark = [pytest.mark.pulseaudio, pytest.mark.weights]

QUESTION = "What is the capital of France?"


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
    assert error_rate(QUESTION, talk.said_by("you")) <= 0.2
    async with ears(weights) as judge:
        heard = await judge.hear(played, RATE)
    right, captioned = found(talk.said_by("parley"), " ".join(heard))
    tell(f"parley talk, live: {right} of {captioned} captioned words recognised")
    assert captioned and right >= 0.8 * captioned


async def quiet(pulse: Pulse) -> None:
    """Waits until a reply has been played: there was sound, and two seconds of silence since."""
    async with asyncio.timeout(60):
        while True:
            loud = abs(pulse.heard()) > 0.01
            if loud.any() and not loud[-2 * RATE :].any():
                return
            await asyncio.sleep(0.25)


def test_the_devices_are_listed(tmp_path: Path) -> None:
    with Pulse(tmp_path) as pulse, Talk("--list-devices", environment=pulse.environment) as talk:
        talk.line(r".*\d+ pulse, .*")
        assert talk.end()[0] == 0


def test_a_device_that_is_not_there_is_told(tmp_path: Path) -> None:
    with (
        Pulse(tmp_path) as pulse,
        Talk("--url", "http://host/", "--input", "none", environment=pulse.environment) as talk,
    ):
        status, told = talk.end()
    assert status == 2
    assert told.splitlines()[-1].startswith("parley: sound devices: No input device matching")
