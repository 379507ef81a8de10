"""Number formats: nothing is lost that need not be, and G.711 is the standard's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audio import pcm

EVERY = np.arange(-32768, 32768).astype(np.int16)


def test_every_16_bit_sample_survives_the_way_to_float_and_back() -> None:
    assert (pcm.to_int16(pcm.from_int16(EVERY)) == EVERY).all()
    assert pcm.to_pcm16(pcm.from_pcm16(EVERY.tobytes())) == EVERY.tobytes()


def test_16_bit_sound_is_taken_for_the_samples_that_it_stands_for() -> None:
    sound = pcm.from_int16(EVERY)
    assert (pcm.floats(EVERY) == sound).all()
    assert pcm.floats(sound) is sound
    assert pcm.to_pcm16(EVERY) == pcm.to_pcm16(sound) == EVERY.tobytes()


@given(st.floats(-4, 4, width=32))
def test_a_float_goes_to_the_nearest_sample_and_is_clipped_at_full_scale(value: float) -> None:
    sample = int(pcm.to_int16(np.array([value], np.float32))[0])
    assert sample == max(-32768, min(32767, round(value * 32768)))


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="expected whole 16-bit samples, got 3 bytes"):
        pcm.from_pcm16(b"abc")


# Rows of ITU-T G.711's tables 2a and 1a, scaled to 16 bits: a sample of an interval, its code on
# the line and its decoded value.
PCMU = [(31612, 0x80, 32124), (16252, 0x8F, 16764), (15996, 0x90, 15996), (16, 0xFD, 16)]
PCMA = [(31744, 0xAA, 32256), (16384, 0xA5, 16896), (15872, 0xBA, 16128), (16, 0xD4, 24)]


@pytest.mark.parametrize(("sample", "code", "value"), PCMU)
def test_pcmu_is_the_standards(sample: int, code: int, value: int) -> None:
    assert pcm.to_pcmu(pcm.from_int16(np.array([sample], np.int16))) == bytes([code])
    assert pcm.to_int16(pcm.from_pcmu(bytes([code]))) == [value]
    assert pcm.to_int16(pcm.from_pcmu(bytes([code ^ 0x80]))) == [-value]


@pytest.mark.parametrize(("sample", "code", "value"), PCMA)
def test_pcma_is_the_standards(sample: int, code: int, value: int) -> None:
    assert pcm.to_pcma(pcm.from_int16(np.array([sample], np.int16))) == bytes([code])
    assert pcm.to_int16(pcm.from_pcma(bytes([code]))) == [value]
    assert pcm.to_int16(pcm.from_pcma(bytes([code ^ 0x80]))) == [-value]


def test_every_g711_code_survives_the_way_to_float_and_back() -> None:
    codes = bytes(range(256))
    assert pcm.to_pcma(pcm.from_pcma(codes)) == codes
    minus_zero = codes.replace(b"\x7f", b"\xff")
    assert pcm.to_pcmu(pcm.from_pcmu(codes)) == minus_zero


def test_g711_is_never_further_off_than_half_a_step_of_its_segment() -> None:
    sound = pcm.from_int16(EVERY)
    for back in (pcm.from_pcmu(pcm.to_pcmu(sound)), pcm.from_pcma(pcm.to_pcma(sound))):
        off = np.abs(back - sound)
        assert (off <= np.abs(sound) / 32 + 8 / 32768).all()
