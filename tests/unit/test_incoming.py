"""A caller's sound stays on the caller's own time, whatever the network does with its packets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import Samples
from server.transport.leg import Frame
from server.transport.webrtc.incoming import BEHIND, Incoming
from server.transport.webrtc.opus import OpusError
from server.transport.webrtc.reorder import LONGEST, MS
from server.transport.webrtc.rtp import Packet

RATE = 16_000
FRAME = RATE // 50
STEP = 20 * MS


class Plain:
    """Decodes a packet to samples of its own number; makes up samples of -1."""

    rate = RATE

    def decode(self, packet: bytes) -> Samples:
        if not packet:
            raise OpusError("empty")
        return np.full(FRAME, int(packet), np.float32)

    def recover(self, packet: bytes, samples: int) -> Samples:
        return np.full(samples, int(packet) - 1, np.float32)

    def conceal(self, samples: int) -> Samples:
        return np.full(samples, -1, np.float32)


class Line:
    """A network and its clock."""

    def __init__(self) -> None:
        self.incoming = Incoming(Plain())
        self.frames: list[Frame] = []
        self.now = 0

    def pass_until(self, now: int) -> None:
        while (due := self.incoming.due()) is not None and due <= now:
            self.frames += self.incoming.poll(due)
        self.now = now

    def send(
        self, number: int, at: int, *, timestamp: int | None = None, empty: bool = False
    ) -> None:
        """Packet ``number`` arrives at ``at``; an ``empty`` one says that nothing follows."""
        self.pass_until(at)
        stamp = number * 960 if timestamp is None else timestamp
        packet = Packet(
            number & 0xFFFF, stamp & 0xFFFF_FFFF, b"0" if empty else b"%06d" % (number + 1)
        )
        self.frames += self.incoming.push(packet, at)

    @property
    def heard(self) -> Samples:
        return np.concatenate([frame.pcm for frame in self.frames])


@given(st.lists(st.booleans(), min_size=1, max_size=100), st.integers(0, 2**32))
def test_what_is_heard_is_as_long_as_what_was_sent(lost: list[bool], first: int) -> None:
    line = Line()
    sent = [0, *(number + 1 for number, gone in enumerate(lost) if not gone)]
    for number in sent:
        line.send(number, number * STEP, timestamp=first + number * 960)
        assert len(line.heard) == (number + 1) * FRAME
    for number in sent:
        own = line.heard[number * FRAME : (number + 1) * FRAME]
        assert (own == number + 1).all(), "each packet sounds at its own time"


@given(st.lists(st.integers(0, 60 * MS), min_size=1, max_size=100))
def test_jitter_neither_loses_nor_stretches_once_it_is_known(late: list[int]) -> None:
    line = Line()
    for at, number in sorted((n * STEP + jitter, n) for n, jitter in enumerate([0, *late])):
        line.send(number, at)
    line.pass_until(line.now + LONGEST)
    assert line.incoming.late == 0
    assert len(line.heard) == (len(late) + 1) * FRAME


def test_one_lost_packet_is_taken_from_the_next_and_delays_nothing() -> None:
    line = Line()
    for number in (0, 1, 3, 4):
        line.send(number, number * STEP)
    assert line.heard[::FRAME].tolist() == [1, 2, 3, 4, 5]
    assert [frame.concealed for frame in line.frames] == [0, 0, FRAME, 0, 0]


def test_a_packet_without_sound_is_no_loss() -> None:
    line = Line()
    line.send(0, 0)
    line.frames += line.incoming.skip(Packet(1, 0, b"key"), STEP)
    line.send(2, 2 * STEP)
    assert line.heard[::FRAME].tolist() == [1, 0, 3]
    assert line.incoming.lost == 0


def test_a_burst_of_losses_is_made_up_for_a_tenth_of_a_second_and_then_silent() -> None:
    line = Line()
    for number in (0, 11):
        line.send(number, number * STEP)
    line.pass_until(11 * STEP)
    heard = line.heard[::FRAME].tolist()
    assert len(heard) == 12
    assert heard[0] == 1
    assert heard.count(0) == 10 - 5
    assert heard[-2:] == [11, 12]


def test_who_sends_nothing_is_silent_as_time_goes_on_and_speaks_at_once_again() -> None:
    """DTX: a silent caller sends a packet every 400 ms, its numbers without a gap."""
    line = Line()
    line.send(0, 0)
    line.pass_until(3_000 * MS)
    assert 0 <= 3_000 * MS - len(line.heard) * 1000 * MS // RATE <= BEHIND + STEP
    line.send(1, 3_000 * MS, timestamp=150 * 960)
    assert len(line.heard) == 151 * FRAME
    assert (line.heard[-FRAME:] == 2).all()
    assert sum(frame.concealed for frame in line.frames) == 0


talk = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 90)), min_size=1, max_size=6)
"""Packets of speech, and of the silence behind them."""


def sent(since: int) -> str:
    """What Chromium sends ``since`` packets into a silence: first an empty one, then every 400 ms
    a full one and another empty one.
    """
    if since < 0 or (since and since % 20 == 0):
        return "full"
    return "empty" if since == 0 or (since > 20 and since % 20 == 1) else "nothing"


@given(talk, st.lists(st.integers(0, 60 * MS), min_size=1, max_size=20))
def test_who_says_that_nothing_follows_is_silent_at_once_and_no_word_is_lost(
    turns: list[tuple[int, int]], late: list[int]
) -> None:
    line, slot, number, came, spoken = Line(), 0, 0, 0, list[int]()
    late = [0, *late]  # By the first packet the caller's time is known.
    for speech, silence in turns:
        for since in range(-speech, silence):
            if (what := sent(since)) != "nothing":
                came = max(came, slot * STEP + late[number % len(late)])
                line.send(number, came, timestamp=slot * 960, empty=what == "empty")
                number += 1
                spoken += [number] if since < 0 else []
            slot += 1
        line.pass_until(max(came, slot * STEP))
        if silence % 20 > 4:
            behind = line.now * RATE // (1000 * MS) - len(line.heard)
            assert behind < 40 * RATE // 1000
            assert -behind <= FRAME + max(late) * RATE // (1000 * MS), "silence is not added up"
    heard = line.heard[np.flatnonzero(line.heard)][::FRAME]
    assert line.incoming.late == 0
    assert [each for each in heard if each in spoken] == spoken


def test_after_a_blackout_what_was_held_up_is_not_heard_late() -> None:
    line = Line()
    for number in range(10):
        line.send(number, number * STEP)
    for number in range(10, 110):  # two seconds come at once
        line.send(number, 110 * STEP + number)
    for number in range(110, 120):
        line.send(number, number * STEP + 200)
    assert len(line.heard) == 120 * FRAME
    assert (line.heard[-FRAME:] == 120).all()


def test_a_clock_that_stood_still_is_followed() -> None:
    """Some senders stop their timestamps while they are muted."""
    line = Line()
    line.send(0, 0)
    line.pass_until(5_000 * MS)
    for number in range(1, 101):
        line.send(number, 5_000 * MS + number * STEP)
    assert (line.heard[-FRAME:] == 101).all()
    assert line.incoming.late < 30


def test_a_slower_clock_makes_no_silence() -> None:
    """200 millionths for two minutes are 24 ms."""
    line = Line()
    for number in range(6_000):
        line.send(number, number * (STEP + STEP // 5_000))
    assert len(line.heard) == 6_000 * FRAME
    assert line.incoming.late == 0
