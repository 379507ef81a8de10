"""Loudness of sounds whose loudness is known."""

import math

import numpy as np
import pytest

from engine.audio.levels import dbfs, rms

SINE = np.sin(2 * np.pi * np.arange(480) / 48).astype(np.float32)
HALF = np.float32(0.5)


def test_a_full_scale_sine_is_three_db_below_full_scale() -> None:
    assert dbfs(SINE) == pytest.approx(-3.0103, abs=1e-3)
    assert rms(SINE) == pytest.approx(math.sqrt(0.5), abs=1e-4)


def test_half_the_amplitude_is_six_db_less() -> None:
    assert dbfs(SINE) - dbfs(SINE * HALF) == pytest.approx(6.0206, abs=1e-3)


@pytest.mark.parametrize("samples", [0, 480])
def test_silence_has_no_level(samples: int) -> None:
    assert dbfs(np.zeros(samples, np.float32)) == -math.inf
