"""What the resampler promises, for every pair of rates and every way to cut the sound."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audio.resample import Resampler
from engine.contract import Samples

RATES = (8000, 16000, 24000, 44100, 48000)
PAIRS = list(permutations(RATES, 2))
pairs = st.sampled_from(PAIRS)
cuts = st.lists(st.integers(0, 6000), max_size=8)


def noise(samples: int) -> Samples:
    return np.random.default_rng(1).uniform(-1, 1, samples).astype(np.float32)


def tone(hertz: float, rate: int, seconds: float = 0.5) -> Samples:
    return np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate).astype(np.float32)


def strength(pcm: Samples, hertz: float, rate: int) -> float:
    """The amplitude of one frequency in the middle of ``pcm``, and nothing else of it."""
    middle = pcm[len(pcm) // 4 : -len(pcm) // 4].astype(np.float64)
    window = np.hanning(len(middle))
    turn = np.exp(-2j * np.pi * hertz * np.arange(len(middle)) / rate)
    return float(2 * abs((middle * window * turn).sum()) / window.sum())


@given(pairs, cuts)
def test_any_split_gives_the_same_bits(pair: tuple[int, int], sizes: list[int]) -> None:
    sound = noise(sum(sizes))
    whole, pieces = Resampler(*pair), Resampler(*pair)
    ends = np.cumsum(sizes)
    cut = [pieces.push(sound[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    joined = np.concatenate([*cut, pieces.flush()])
    assert joined.tobytes() == np.concatenate([whole.push(sound), whole.flush()]).tobytes()


@given(pairs, cuts)
def test_samples_are_conserved_at_every_moment(pair: tuple[int, int], sizes: list[int]) -> None:
    source, target = pair
    resampler = Resampler(source, target)
    pushed = made = 0
    for size in sizes:
        pushed += size
        made += len(resampler.push(noise(size)))
        assert made == math.ceil(pushed * target / source)
    made += len(resampler.flush())
    assert made == math.ceil((pushed + resampler.delay) * target / source)


@given(pairs, st.integers(0, 3000))
def test_flushed_it_is_as_new(pair: tuple[int, int], size: int) -> None:
    used = Resampler(*pair)
    used.push(noise(size))
    used.flush()
    assert used.push(noise(999)).tobytes() == Resampler(*pair).push(noise(999)).tobytes()


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_it_is_flat_to_four_fifths_of_the_lower_nyquist(source: int, target: int) -> None:
    for part in (0.02, 0.4, 0.8):
        hertz = part * min(source, target) / 2
        out = Resampler(source, target).push(tone(hertz, source))
        assert abs(20 * math.log10(strength(out, hertz, target))) < 0.05


@pytest.mark.parametrize(("source", "target"), [pair for pair in PAIRS if pair[0] > 1.2 * pair[1]])
def test_nothing_folds_into_the_flat_band(source: int, target: int) -> None:
    for hertz in np.linspace(0.6 * target, 0.49 * source, 5):
        out = Resampler(source, target).push(tone(float(hertz), source))
        rest = out[len(out) // 4 : -len(out) // 4]
        assert np.sqrt(2 * np.mean(rest**2)) < 10 ** (-75 / 20)


@pytest.mark.parametrize(("source", "target"), [pair for pair in PAIRS if pair[0] < pair[1]])
def test_upsampling_leaves_no_image(source: int, target: int) -> None:
    hertz = 0.3 * source
    out = Resampler(source, target).push(tone(hertz, source))
    image = source - hertz
    if image < target / 2:
        assert strength(out, image, target) < 10 ** (-75 / 20)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_sound_comes_out_exactly_as_late_as_stated(source: int, target: int) -> None:
    resampler = Resampler(source, target)
    hertz = 0.2 * min(source, target)
    made = np.concatenate([resampler.push(tone(hertz, source)), resampler.flush()])
    at = np.arange(len(made)) / target - resampler.delay / source
    middle = slice(len(made) // 4, -len(made) // 4)
    assert np.abs(made - np.sin(2 * np.pi * hertz * at))[middle].max() < 1e-3


def test_equal_rates_pass_the_sound_through() -> None:
    sound = noise(100)
    resampler = Resampler(16000, 16000)
    assert resampler.push(sound) is sound
    assert len(resampler.flush()) == resampler.delay == 0


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="rates: expected at least 1 Hz, got 0"):
        Resampler(0, 8000)
