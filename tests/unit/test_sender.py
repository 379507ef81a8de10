"""The way out of a call: every sample leaves once, and at once; of silence nothing does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import Samples
from server.transport.webrtc.opus import CLOCK
from server.transport.webrtc.sender import RATE, Sender

FRAME = RATE // 50
STEP = 20_000_000


class Plain:
    """Codes a frame as its bytes, and silence as nothing."""

    def __init__(self) -> None:
        self.expected = 0
        self.closed = False

    def encode(self, pcm: Samples) -> bytes:
        return pcm.tobytes() if pcm.any() else b"\x08"

    def expect_loss(self, percent: int) -> None:
        assert not self.closed
        self.expected = percent

    def close(self) -> None:
        self.closed = True


class Wire:
    """Where packets go, with the clock that they are stamped by."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, frame: int = FRAME) -> None:
        self.packets: list[tuple[bytes, int, bool]] = []
        self.now = 0
        self.up = True
        self.encoder = Plain()
        self.sender = Sender(self.encoder, frame, self.out)
        monkeypatch.setattr("server.transport.webrtc.sender.time.monotonic_ns", lambda: self.now)

    def out(self, payload: bytes, timestamp: int, marker: bool) -> bool:
        if self.up:
            self.packets.append((payload, timestamp, marker))
        return self.up

    def say(self, *frames: float) -> None:
        """Sends a frame of each level, each when it is due."""
        for level in frames:
            self.sender.send(np.full(FRAME, level, np.float32))
            self.now += STEP

    @property
    def markers(self) -> list[bool]:
        return [marker for _, _, marker in self.packets]


@given(st.lists(st.integers(0, 1_500), max_size=20), st.sampled_from([FRAME // 2, FRAME]))
def test_every_sample_goes_out_once_and_in_order_however_it_comes(
    lengths: list[int], frame: int
) -> None:
    packets: list[bytes] = []

    def take(payload: bytes, timestamp: int, marker: bool) -> bool:
        packets.append(payload)
        return True

    out = Sender(Plain(), frame, take)
    said = np.arange(1, sum(lengths) + 1, dtype=np.float32)
    for piece in np.split(said, np.cumsum(lengths)):
        out.send(piece)
    heard = np.frombuffer(b"".join(packets), np.float32)
    assert np.array_equal(heard, said[: len(heard)])
    assert 0 <= len(said) - len(heard) < frame
    assert out.sent == len(heard)


def test_a_frame_leaves_before_its_sending_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch)
    wire.say(1, 2)
    assert len(wire.packets) == 2


def test_the_first_packet_after_a_pause_alone_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch)
    wire.say(1, 2, 3)
    wire.now += 50 * STEP
    wire.say(4, 5)
    assert wire.markers == [True, False, False, True, False]
    stamps = [timestamp for _, timestamp, _ in wire.packets]
    assert stamps == [number * CLOCK // 50 for number in (0, 1, 2, 53, 54)]


def test_what_holds_nothing_is_not_sent_but_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch)
    wire.say(1, 0, 0, 2, 3)
    assert wire.markers == [True, True, False]
    assert [timestamp for _, timestamp, _ in wire.packets] == [0, 3 * 960, 4 * 960]
    assert wire.sender.sent == 5 * FRAME


def test_what_cannot_be_sent_is_counted_and_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch)
    wire.up = False
    wire.say(1, 2)
    wire.up = True
    wire.say(3)
    assert wire.sender.dropped == 2
    assert [timestamp for _, timestamp, _ in wire.packets] == [2 * 960]
    assert wire.markers == [True]


def test_after_the_end_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch)
    wire.sender.lost(0.25)
    assert wire.encoder.expected == 25
    wire.sender.end()
    wire.sender.end()
    wire.say(1)
    wire.sender.lost(0.5)
    assert wire.packets == [] and wire.encoder.closed
