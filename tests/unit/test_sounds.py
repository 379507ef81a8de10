"""The tests' own ears: a wrong judge would pass anything."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import sounds

sentences = st.lists(st.sampled_from(["red", "green", "blue", "grey"]), min_size=1, max_size=8)


@given(sentences)
def test_nothing_misheard_is_no_error(said: list[str]) -> None:
    assert sounds.error_rate(" ".join(said), " ".join(said)) == 0


@given(sentences, sentences)
def test_the_errors_are_at_least_the_missing_words_and_at_most_all(
    said: list[str], heard: list[str]
) -> None:
    errors = sounds.error_rate(" ".join(said), " ".join(heard)) * len(said)
    assert abs(len(said) - len(heard)) <= round(errors) <= max(len(said), len(heard))


def test_case_punctuation_and_figures_do_not_count() -> None:
    assert sounds.error_rate("go forward ten meters", "Go forward 10 meters.") == 0
    assert sounds.error_rate("two nine three four zero", "29340") == 0
    assert sounds.error_rate("mister dashwood", "Mr. Dashwood!") == 0


def test_each_kind_of_error_counts_once() -> None:
    said = "the cat sat down"
    assert sounds.error_rate(said, "the dog sat down") == 0.25
    assert sounds.error_rate(said, "the cat down") == 0.25
    assert sounds.error_rate(said, "the cat sat right down") == 0.25
    assert sounds.error_rate(said, "") == 1


@given(st.sampled_from([8_000, 16_000, 24_000, 48_000]), st.floats(0.1, 0.5))
def test_resampling_keeps_length_and_level(rate: int, level: float) -> None:
    tone = (level * np.sin(np.arange(16_000) * (2 * np.pi * 440 / 16_000))).astype(np.float32)
    other = sounds.resampled(tone, 16_000, rate)
    assert abs(len(other) - rate) <= 32
    middle = other[rate // 10 : -rate // 10]
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(level / np.sqrt(2), rel=0.02)


def test_a_written_file_reads_back_to_the_bit(tmp_path: Path) -> None:
    pcm = (np.arange(-100, 100) / 32767).astype(np.float32)
    sounds.write_wav(tmp_path / "ramp.wav", pcm, 24_000)
    back = sounds.read_wav(tmp_path / "ramp.wav", 24_000)
    assert np.array_equal((back * 32768).round(), (pcm * 32767).round())


def test_the_default_voice_speaks_the_same_twice() -> None:
    first = sounds.hibari("Hello there.")
    assert np.array_equal(first, sounds.hibari("Hello there."))
    assert 0.3 < len(first) / sounds.HIBARI_RATE < 3


@pytest.mark.flite
def test_flite_speaks_at_any_rate() -> None:
    assert len(sounds.flite("Hello there.", 48_000)) == pytest.approx(
        3 * len(sounds.flite("Hello there.")), abs=100
    )


@pytest.mark.recordings
def test_every_recording_has_its_words_and_a_plausible_pace() -> None:
    clips = (*sounds.librivox(), *sounds.cards(), *sounds.commands())
    assert len(clips) == 13
    for clip in clips:
        assert 1 < len(clip.text.split()) / clip.seconds < 5, clip.name
