"""The measurements of the browser tests, on recordings whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import Samples
from tests.browser.recording import RATE, Recording, Stretch, joined

FIRST = 12_345
"""The frame of the first sample: no measurement may depend on it."""


def tone(*bursts: tuple[float, float], seconds: float = 4.0) -> Samples:
    """Sound from and to these seconds, silence elsewhere."""
    sound = np.zeros(int(seconds * RATE), np.float32)
    for start, end in bursts:
        sound[int(start * RATE) : int(end * RATE)] = 0.3
    return sound


def at(seconds: float) -> int:
    return FIRST + int(seconds * RATE)


def test_a_response_is_timed_from_the_last_sample_spoken_to_the_first_heard() -> None:
    recording = Recording(FIRST, tone((0.5, 1.0)), tone((0.2, 0.7), (1.6, 2.5)))
    assert recording.response_ms(Stretch(at(0.4), at(1.3))) == pytest.approx(600, abs=0.1)


def test_an_answer_that_never_comes_has_no_time() -> None:
    recording = Recording(FIRST, tone((0.5, 1.0)), tone((0.2, 0.7)))
    assert recording.response_ms(Stretch(at(0.4), at(1.3))) is None


@given(st.floats(0.05, 0.9))
def test_a_cut_is_timed_from_the_onset_to_the_silence(after: float) -> None:
    recording = Recording(FIRST, tone((1.5, 3.0)), tone((0.0, 1.5 + after)))
    cut = recording.cut(Stretch(at(1.4), at(3.2)))
    assert cut.ms == pytest.approx(after * 1000, abs=10)


def test_a_pause_between_two_words_is_no_cut() -> None:
    recording = Recording(FIRST, tone((1.5, 3.0)), tone((0.0, 1.6), (1.9, 2.2)))
    assert recording.cut(Stretch(at(1.4), at(3.2))).ms == pytest.approx(700, abs=10)


def test_a_reply_that_goes_on_was_not_cut() -> None:
    recording = Recording(FIRST, tone((1.5, 3.0)), tone((0.0, 4.0)))
    with pytest.raises(ValueError, match="goes on"):
        recording.cut(Stretch(at(1.4), at(3.2)))


def test_gaps_are_the_silences_within() -> None:
    recording = Recording(FIRST, tone(), tone((0.5, 1.0), (1.3, 2.0)))
    (gap,) = recording.gaps(Stretch(at(0.6), at(1.9)), 100)
    assert gap.ms == pytest.approx(300, abs=0.1)


def test_sound_missing_between_two_takes_keeps_its_place() -> None:
    one = Recording(FIRST, tone(seconds=1), tone((0.0, 1.0), seconds=1))
    two = Recording(one.end + RATE, tone(seconds=1), tone((0.5, 1.0), seconds=1))
    assert joined(one, two).answered(one.end) == two.first + RATE // 2
