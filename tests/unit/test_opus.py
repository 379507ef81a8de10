"""Opus, by libopus: what was said is heard, what was lost is made up, and garbage is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audio.pcm import floats
from engine.contract import Sound
from server.transport.webrtc.opus import RATES, OpusDecoder, OpusError
from tests.sounds import hibari, opus_packets

PACKETS = opus_packets(hibari("One, two, three.", 24_000))


def loudness(pcm: Sound) -> float:
    return float(np.sqrt(np.mean(np.square(floats(pcm)))))


@pytest.mark.parametrize("rate", RATES)
def test_it_decodes_to_any_of_its_rates(rate: int) -> None:
    decoder = OpusDecoder(rate)
    pcm = np.concatenate([decoder.decode(packet) for packet in PACKETS])
    assert len(pcm) == len(PACKETS) * rate // 50
    spoken = loudness(hibari("One, two, three.", 24_000))
    assert loudness(pcm) == pytest.approx(spoken, rel=0.2)


def test_what_was_lost_is_made_up_of_what_came_before() -> None:
    decoder = OpusDecoder(16_000)
    loud = max(range(len(PACKETS)), key=lambda n: len(PACKETS[n]))
    for packet in PACKETS[: loud + 1]:
        heard = decoder.decode(packet)
    concealed = decoder.conceal(320)
    assert len(concealed) == 320
    assert loudness(concealed) > loudness(heard) / 4
    assert len(decoder.recover(PACKETS[loud + 1], 320)) == 320


@given(st.binary(max_size=400))
def test_garbage_is_decoded_or_refused(garbage: bytes) -> None:
    decoder = OpusDecoder(16_000)
    try:
        pcm = decoder.decode(garbage)
    except OpusError:
        return
    assert len(pcm) <= 0.12 * 16_000


def test_a_closed_decoder_refuses() -> None:
    decoder = OpusDecoder(16_000)
    decoder.close()
    decoder.close()
    with pytest.raises(OpusError):
        decoder.decode(PACKETS[0])
