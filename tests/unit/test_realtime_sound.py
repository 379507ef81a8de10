"""Sound on the wire: where it is cut, or waits for room, is never heard."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.audio import pcm
from engine.contract import Samples, Sound
from server.protocol.realtime.session_object import Format, Pcm, Pcma, Pcmu
from server.protocol.sound import InputBuffer, OutputEncoder

TONE = (np.sin(np.arange(4800) / 7) / 2).astype(np.float32)
ENCODED = {Pcm(): pcm.to_pcm16(TONE), Pcmu(): pcm.to_pcmu(TONE), Pcma(): pcm.to_pcma(TONE)}
formats = st.sampled_from(list(ENCODED))
rates = st.sampled_from([8_000, 16_000, 24_000, 48_000])
cuts = st.lists(st.integers(0, len(TONE)), max_size=6).map(sorted)


class Ear:
    """Hears what it has room for."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.heard: Samples = np.zeros(0, np.float32)
        self.pieces = 0

    def hear(self, sound: Sound) -> int:
        assert len(sound) <= self.room
        self.heard = np.concatenate([self.heard, pcm.floats(sound)])
        self.pieces += 1
        self.room -= len(sound)
        return self.room


@given(formats, rates, cuts)
def test_a_reply_is_the_same_bytes_however_the_engine_cut_it(
    format: Format, rate: int, places: list[int]
) -> None:
    whole, pieces = OutputEncoder(format.coding, rate), OutputEncoder(format.coding, rate)
    edges = [0, *places, len(TONE)]
    cut = b"".join(pieces.push(TONE[start:end]) for start, end in pairwise(edges))
    assert cut + pieces.flush() == whole.push(TONE) + whole.flush()


@given(
    formats,
    rates,
    cuts,
    st.integers(0, 20_000),
    st.lists(st.integers(1, 3000), min_size=1, max_size=20),
)
def test_a_caller_is_heard_the_same_however_the_sound_was_cut_and_had_to_wait(
    format: Format, rate: int, places: list[int], room: int, rooms: list[int]
) -> None:
    data = ENCODED[format]
    width = len(data) // len(TONE)
    free, narrow = Ear(10**6), Ear(room)
    InputBuffer(free, format.coding, rate).append(data)
    buffer = InputBuffer(narrow, format.coding, rate)
    for start, end in pairwise([0, *places, len(TONE)]):
        buffer.append(data[start * width : end * width])
    for room in rooms:
        narrow.room = room
        buffer.pump()
    narrow.room = 10**6
    while not buffer.pump():
        continue
    assert narrow.heard.tobytes() == free.heard.tobytes()
    assert buffer.heard == len(narrow.heard)


def test_an_append_of_nothing_is_nothing_heard() -> None:
    ear = Ear(10**6)
    buffer = InputBuffer(ear, Pcm().coding, 24_000)
    for data in (b"", b"ab", b""):
        assert buffer.append(data)
    assert ear.pieces == 1


def test_a_minute_is_not_decoded_in_one_step() -> None:
    ear = Ear(10**7)
    buffer = InputBuffer(ear, Pcmu().coding, 16_000)
    buffer.append(bytes(8_000 * 60))
    assert len(ear.heard) == 16_000
    while not buffer.pump():
        continue
    assert len(ear.heard) == 16_000 * 60


def test_half_a_sample_is_refused_and_nothing_of_it_taken() -> None:
    ear = Ear(10**6)
    buffer = InputBuffer(ear, Pcm().coding, 16_000)
    assert not buffer.append(b"abc")
    assert buffer.pump()
    assert not len(ear.heard)
