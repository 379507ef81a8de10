"""What is made as it sounds does not stay late: pacing in real time, over every way to be late."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from server.playout import GRID, SECOND, Paced, Taken

RATE, FRAME = 24000, 480
PERIOD = FRAME * SECOND // RATE
MS = 1_000_000
SAID = np.sin(2 * np.pi * 200 * np.arange(28 * RATE // 5) / RATE).astype(np.float32)
"""Up to two seconds after the latest trouble, and the rest, which is looked at; whole pieces."""

troubles = st.lists(st.tuples(st.integers(0, 2_500), st.integers(1, 500)), max_size=4).filter(
    lambda troubles: sum(length for _, length in troubles) <= 500
)
"""From when on nothing comes, and for how long, in ms: half a second in all, at most."""
pieces = st.sampled_from([240, 480, 700, 1_920])
few = settings(max_examples=25)


class Stream:
    """A reply made as it sounds, ``piece`` samples at a time, and what is handed out of it.

    While there is trouble nothing comes, and then at once what was made meanwhile.
    """

    def __init__(self, piece: int, troubles: list[tuple[int, int]], *, fill: bool = False) -> None:
        self.playout = Paced(RATE, FRAME, fill=fill, real_time=True)
        self.sent: list[tuple[int, Taken]] = []
        self._ends = list(range(piece, len(SAID) + 1, piece))
        self._came: list[int] = []
        due, now = None, 0
        for end in self._ends:
            now = max(now, _comes(end * SECOND // RATE, troubles))
            while due is not None and due < now:
                due = self._serve(due)
            self.playout.push("r", SAID[end - piece : end], now)
            self._came.append(now)
            if due is None:
                due = self._serve(now)
        self.playout.finish("r")
        self._made = len(self.sent)
        while due is not None and self.playout.playing(due):
            due = self._serve(due)

    def _serve(self, now: int) -> int | None:
        due = self.playout.wake(now)
        if due is None or due > now:
            return due
        if taken := self.playout.take(now):
            self.sent.append((now, taken))
        return self.playout.wake(now)

    def delay(self) -> int:
        """Nanoseconds from when the latest half a second of sound came until it left, at most."""
        latest = [(at, taken.end) for at, taken in self.sent[: self._made][-25:] if taken.reply]
        return max(at - self._came[bisect_left(self._ends, end)] for at, end in latest)


def _comes(made: int, troubles: list[tuple[int, int]]) -> int:
    for begin, length in sorted(troubles):
        if begin * MS <= made < (begin + length) * MS:
            made = (begin + length) * MS
    return made


@few
@given(pieces, troubles, st.booleans())
def test_soon_after_trouble_sound_comes_as_it_did_before(
    piece: int, troubles: list[tuple[int, int]], fill: bool
) -> None:
    clean = Stream(piece, [], fill=fill).delay()
    assert Stream(piece, troubles, fill=fill).delay() <= clean + PERIOD


@few
@given(pieces, troubles, st.booleans())
def test_frames_never_hurry(piece: int, troubles: list[tuple[int, int]], fill: bool) -> None:
    times = [at for at, _ in Stream(piece, troubles, fill=fill).sent]
    assert all(after - before >= PERIOD - GRID for before, after in pairwise(times))


@few
@given(pieces, troubles, st.booleans())
def test_every_sample_leaves_alone_or_laid_over_another(
    piece: int, troubles: list[tuple[int, int]], fill: bool
) -> None:
    stream = Stream(piece, troubles, fill=fill)
    ends = [0] + [taken.end for _, taken in stream.sent if taken.reply]
    assert ends[-1] == stream.playout.played("r", 0) == len(SAID) // piece * piece
    steps = [after - before for before, after in pairwise(ends)]
    assert set(steps[:-1]) <= {FRAME, 2 * FRAME}


@few
@given(pieces, troubles)
def test_nothing_clicks(piece: int, troubles: list[tuple[int, int]]) -> None:
    sound = np.concatenate([taken.pcm for _, taken in Stream(piece, troubles).sent])
    assert np.abs(np.diff(sound)).max() <= 2 * np.abs(np.diff(SAID)).max()


def test_a_stream_that_is_on_time_is_left_as_it_is() -> None:
    sent = Stream(480, []).sent
    assert np.array_equal(np.concatenate([taken.pcm for _, taken in sent]), SAID)


@given(st.integers(1, 40))
def test_sound_made_ahead_is_never_let_go_of(late: int) -> None:
    playout = Paced(RATE, FRAME)
    playout.push("r", SAID, 0)
    playout.finish("r")
    now, ends = 0, list[int]()
    while (due := playout.wake(now)) is not None:
        now = due + (late * MS if len(ends) == 20 else 0)
        if taken := playout.take(now):
            ends.append(taken.end)
    assert ends == list(range(FRAME, len(SAID) + 1, FRAME))
