"""Opus encoding: what is coded decodes to the same sound, and each control is obeyed or refused."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from engine.audio.pcm import floats
from engine.contract import Samples
from server.transport.webrtc.opus import (
    RATES,
    Controls,
    LibraryMissing,
    OpusDecoder,
    OpusEncoder,
    OpusError,
    library,
)
from tests.sounds import hibari

RATE = 24_000
FRAME = RATE // 50
SPEECH = hibari("One, two, three, and a few words more to be heard.", RATE)
MODES = [Controls("lowdelay"), Controls("voip")]


def coded(controls: Controls, pcm: Samples = SPEECH, frame: int = FRAME) -> list[bytes]:
    encoder = OpusEncoder(RATE, controls)
    starts = range(0, len(pcm) - frame + 1, frame)
    return [encoder.encode(pcm[start : start + frame]) for start in starts]


def decoded(packets: list[bytes]) -> Samples:
    decoder = OpusDecoder(RATE)
    return floats(np.concatenate([decoder.decode(packet) for packet in packets]))


def kilobits(packets: list[bytes]) -> float:
    return sum(map(len, packets)) * 8 / (len(packets) * 0.02) / 1000


def hybrid(packet: bytes) -> bool:
    """Whether SILK had a hand in it (RFC 6716 section 3.1)."""
    return packet[0] >> 3 < 16


@pytest.mark.parametrize("controls", MODES)
@pytest.mark.parametrize("frame", [FRAME // 2, FRAME])
def test_what_is_coded_decodes_to_the_same_sound(controls: Controls, frame: int) -> None:
    heard = decoded(coded(replace(controls, bitrate=64_000), frame=frame))
    lags = range(RATE // 50)
    alike = [float(np.dot(SPEECH[: len(heard) - lag], heard[lag:])) for lag in lags]
    late = OpusEncoder(RATE, controls).lookahead
    assert int(np.argmax(alike)) == pytest.approx(late, abs=RATE // 2_000)
    said, heard = SPEECH[: len(heard) - late], heard[late:]
    assert np.linalg.norm(heard) == pytest.approx(np.linalg.norm(said), rel=0.1)
    assert np.corrcoef(said, heard)[0, 1] > (0.97 if controls.mode == "lowdelay" else 0.87)


def test_the_low_delay_is_lower() -> None:
    assert OpusEncoder(RATE, Controls("lowdelay")).lookahead == RATE * 2.5 // 1000
    assert OpusEncoder(RATE, Controls("voip")).lookahead == RATE * 6.5 // 1000


@pytest.mark.parametrize("controls", MODES)
@pytest.mark.parametrize("bitrate", [16_000, 32_000, 64_000])
def test_the_bitrate_is_that_of_the_settings(controls: Controls, bitrate: int) -> None:
    assert kilobits(coded(replace(controls, bitrate=bitrate))) == pytest.approx(
        bitrate / 1000, rel=0.35
    )


def test_the_mode_is_that_of_the_settings() -> None:
    assert not any(map(hybrid, coded(Controls("lowdelay"))))
    assert any(map(hybrid, coded(Controls("voip", bitrate=20_000))))


def test_complexity_changes_what_is_made() -> None:
    assert coded(Controls(complexity=0)) != coded(Controls(complexity=10))


def test_silence_need_not_be_sent_with_dtx() -> None:
    silence = np.zeros(2 * RATE, np.float32)
    sent = [len(packet) > 2 for packet in coded(Controls("voip", dtx=True), silence)]
    assert sum(sent[25:]) <= 10
    assert all(len(packet) > 2 for packet in coded(Controls("voip"), silence))


def test_a_lost_packet_is_in_the_next_one_with_fec() -> None:
    def error(fec: bool) -> float:
        """Of the lost frames, between what was coded of them and what was recovered."""
        encoder = OpusEncoder(RATE, Controls("voip", bitrate=24_000, fec=fec))
        encoder.expect_loss(30)
        frames = SPEECH[: len(SPEECH) // FRAME * FRAME].reshape(-1, FRAME)
        packets = [encoder.encode(frame) for frame in frames]
        whole, lossy = OpusDecoder(RATE), OpusDecoder(RATE)
        wrong = 0.0
        for number, (packet, following) in enumerate(pairwise(packets)):
            real = floats(whole.decode(packet))
            heard = lossy.recover(following, FRAME) if number % 5 == 4 else lossy.decode(packet)
            wrong += float(np.sum(np.square(real - floats(heard)))) if number % 5 == 4 else 0.0
        return wrong

    assert error(fec=True) < error(fec=False) / 2


@pytest.mark.parametrize(
    ("controls", "name"),
    [(Controls(bitrate=0), "bitrate"), (Controls(complexity=11), "complexity")],
)
def test_a_control_that_is_not_had_is_refused_by_name(controls: Controls, name: str) -> None:
    with pytest.raises(OpusError, match=name):
        OpusEncoder(RATE, controls)


def test_an_odd_rate_or_length_is_refused() -> None:
    with pytest.raises(OpusError, match="22050"):
        OpusEncoder(22_050, Controls())
    encoder = OpusEncoder(RATE, Controls())
    for samples in (0, FRAME + 1, 5 * FRAME):
        with pytest.raises(OpusError, match=str(samples)):
            encoder.encode(np.zeros(samples, np.float32))
    with pytest.raises(OpusError, match="loss"):
        encoder.expect_loss(101)


@pytest.mark.parametrize("rate", RATES)
def test_it_codes_from_any_of_its_rates(rate: int) -> None:
    packet = OpusEncoder(rate, Controls()).encode(np.zeros(rate // 50, np.float32))
    assert len(OpusDecoder(RATE).decode(packet)) == FRAME


def test_a_closed_encoder_refuses() -> None:
    encoder = OpusEncoder(RATE, Controls())
    encoder.close()
    encoder.close()
    with pytest.raises(OpusError):
        encoder.encode(SPEECH[:FRAME])


def test_a_library_of_the_operators_is_taken_and_another_thing_refused(tmp_path: Path) -> None:
    assert library(library()._name).opus_encoder_ctl.argtypes == [ctypes.c_void_p, ctypes.c_int]
    for path in (tmp_path / "missing.so", Path(_other())):
        with pytest.raises(LibraryMissing, match=rf"^webrtc\.sound\.libopus: {path} is no libopus"):
            OpusEncoder(RATE, Controls(), str(path))


def test_without_any_libopus_it_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", Mock(side_effect=OSError))
    with pytest.raises(LibraryMissing, match="apt install libopus0"):
        library.__wrapped__()


def _other() -> Any:
    """A library that is not libopus."""
    import _ctypes

    return _ctypes.__file__
