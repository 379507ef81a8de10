"""What callers say: recorded speech as Opus packets, made once. Pure.

Who talks only part of the time sends in the pauses what a browser sends with DTX: ten frames of
coded silence, a packet of one byte, and then two packets every 400 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from av import AudioFrame, CodecContext

from engine.audio.resample import Resampler
from engine.contract import Samples

RATE, FRAME = 48_000, 960
SECONDS = FRAME / RATE
PLAIN = 8_000
"""Hz, at which what is said and what is heard are compared."""
_BAND = 200, 2_000
"""Hz that a codec keeps in phase: below, it filters rumble; above, it may only keep the level."""
_CYCLE = 250
"""Frames of talk and pause together, where there are pauses."""
_SILENT, _REFRESH = 10, 20
"""Frames until DTX begins, and between the packets that keep it up."""
_BIT_RATE = 32_000


@dataclass(frozen=True, slots=True)
class Speech:
    """A script that is said over and over: ``packets`` a frame each, None where none is sent;
    ``plain`` is its sound as :func:`comparable` makes it.
    """

    packets: tuple[bytes | None, ...]
    plain: Samples

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.packets) * SECONDS


def speech(sound: Samples, talk: float) -> Speech:
    """``sound`` (at :data:`RATE`), said for the share ``talk`` of the time."""
    frames = sound[: len(sound) // FRAME * FRAME].reshape(-1, FRAME)
    if talk >= 1:
        return Speech(tuple(_encoded(frames)), _plain(frames))
    said = round(talk * _CYCLE)
    pause = np.zeros((_CYCLE - said, FRAME), np.float32)
    turns = [frames[at : at + said] for at in range(0, len(frames) - said + 1, said)]
    whole = np.concatenate([part for turn in turns for part in (turn, pause)])
    packets: list[bytes | None] = list(_encoded(whole))
    for turn in range(len(turns)):
        for quiet in range(_SILENT, len(pause)):
            at = turn * _CYCLE + said + quiet
            packet = packets[at]
            assert packet is not None
            match (quiet - _SILENT) % _REFRESH:
                case 0:
                    packets[at] = packet[:1]
                case 19:
                    pass
                case _:
                    packets[at] = None
    return Speech(tuple(packets), _plain(whole))


def comparable(plain: Samples) -> Samples:
    """Sound at :data:`PLAIN` Hz, without what a codec does not keep as it is."""
    spectrum = np.fft.rfft(plain)
    frequencies = np.fft.rfftfreq(len(plain), 1 / PLAIN)
    spectrum[(frequencies < _BAND[0]) | (frequencies > _BAND[1])] = 0
    return np.fft.irfft(spectrum, len(plain)).astype(np.float32)


def _plain(frames: Samples) -> Samples:
    resampler = Resampler(RATE, PLAIN)
    late = resampler.delay * PLAIN // RATE
    plain = np.concatenate((resampler.push(frames.reshape(-1)), resampler.flush()))
    return comparable(plain[late:])


def _encoded(frames: Samples) -> list[bytes]:
    encoder = CodecContext.create("libopus", "w")
    encoder.sample_rate, encoder.layout, encoder.format = RATE, "mono", "flt"
    encoder.bit_rate, encoder.time_base = _BIT_RATE, Fraction(1, RATE)
    encoder.options = {"application": "lowdelay", "frame_duration": "20"}
    packets: list[bytes] = []
    for samples in frames:
        frame = AudioFrame(format="flt", layout="mono", samples=FRAME)
        frame.planes[0].update(samples.astype(np.float32).tobytes())
        frame.sample_rate = RATE
        packets += [bytes(packet) for packet in encoder.encode(frame)]
    return packets
