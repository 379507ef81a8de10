"""The features Smart Turn was trained on, against numbers from pipecat-ai 1.14.0's own code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.turns.log_mel import BANDS, FRAMES, RATE, log_mel

if TYPE_CHECKING:
    from engine.contract import Samples

RECORDED = Path(__file__).parents[1] / "fixtures" / "log_mel.npz"
"""Every eighth frame, made by ``compute_whisper_log_mel_features`` of ``sweep``, left-padded."""


def sweep(samples: int) -> Samples:
    """A tone that rises from 120 Hz and swells and fades 1.3 times a second."""
    time = np.arange(samples) / RATE
    loudness = 0.3 * np.sin(2 * np.pi * 1.3 * time) ** 2
    phase = 2 * np.pi * (120 * time + 400 * time**2 / (samples / RATE))
    return (loudness * np.sin(phase)).astype(np.float32)


@pytest.mark.parametrize(("name", "samples"), [("short", 30_011), ("whole", 128_000)])
def test_they_equal_the_published_ones(name: str, samples: int) -> None:
    features = log_mel(sweep(samples))
    assert features.shape == (BANDS, FRAMES)
    assert features.dtype == np.float32
    assert np.allclose(features[:, ::8], np.load(RECORDED)[name], atol=1e-4)


def test_only_the_last_eight_seconds_count() -> None:
    pcm = sweep(200_000)
    assert np.array_equal(log_mel(pcm), log_mel(pcm[-8 * RATE :]))
    assert np.allclose(log_mel(pcm)[:, ::8], np.load(RECORDED)["long"], atol=1e-4)


@pytest.mark.parametrize("samples", [0, 1, 199, 200, 201, 127_799, 127_800, 127_801])
def test_a_take_of_any_length_has_features(samples: int) -> None:
    silent_start = np.concatenate([np.zeros(128_000 - samples, np.float32), sweep(samples or 1)])
    whole = silent_start[:128_000]
    assert np.allclose(log_mel(whole[128_000 - samples :]), log_mel(whole), atol=1e-4)
