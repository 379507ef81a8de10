"""The voice activity detector on the real network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.turns.silero import CHUNK, RATE, SileroDetector, SileroStream
from tests.sounds import SENTENCES, hibari

if TYPE_CHECKING:
    from engine.contract import Samples
    from engine.weights import Paths

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def detector(weights: Paths) -> SileroDetector:
    return SileroDetector(weights.silero)


@pytest.fixture(scope="module")
def speech() -> Samples:
    return hibari(SENTENCES[0], RATE)


def judged(stream: SileroStream, pcm: Samples) -> list[float]:
    return [stream.judge(pcm[at : at + CHUNK]) for at in range(0, len(pcm) - CHUNK + 1, CHUNK)]


def test_speech_is_told_from_silence_and_noise(detector: SileroDetector, speech: Samples) -> None:
    noise = np.random.default_rng(0).normal(0, 0.02, RATE).astype(np.float32)
    assert np.mean(np.array(judged(detector.stream(), speech)) > 0.5) > 0.7
    assert max(judged(detector.stream(), np.zeros(RATE, np.float32))) < 0.1
    assert max(judged(detector.stream(), noise)) < 0.5


def test_callers_do_not_hear_each_other(detector: SileroDetector, speech: Samples) -> None:
    alone = judged(detector.stream(), speech)
    one, other = detector.stream(), detector.stream()
    together = []
    for at in range(0, len(speech) - CHUNK + 1, CHUNK):
        together.append(one.judge(speech[at : at + CHUNK]))
        other.judge(np.zeros(CHUNK, np.float32))
    assert together == alone


def test_reset_forgets(detector: SileroDetector, speech: Samples) -> None:
    stream = detector.stream()
    first = judged(stream, speech)
    stream.reset()
    assert judged(stream, speech) == first
