"""A caller's buffer: nothing is lost that is not counted, and nothing waits for long."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.audio.pcm import Int16
from engine.contract import Cancel, Order
from engine.duplex.buffer import CAP, PREBUFFER, Buffer

FRAME = 8
STEPS = st.lists(
    st.one_of(st.integers(0, 40), st.sampled_from(["order", "tick", "deaf", "late"])), max_size=60
)


def numbered(first: int, count: int) -> Int16:
    return np.arange(first + 1, first + count + 1, dtype=np.int16)


def filled(buffer: Buffer, *, listens: bool = True, skipped: int = 0) -> tuple[Int16, list[Order]]:
    """A tick's share, behind what was there."""
    before = numbered(1000, 3)
    pieces = [before]
    orders = buffer.fill(pieces, listens=listens, skipped=skipped)
    sound = np.concatenate(pieces)
    assert (sound[: len(before)] == before).all() and len(sound) == len(before) + FRAME
    return sound[len(before) :], orders


def ordered(orders: list[Order]) -> list[int]:
    return [int(order.reply) for order in orders if isinstance(order, Cancel)]


@given(STEPS)
def test_every_sample_is_heard_missed_dropped_or_waits(steps: list[int | str]) -> None:
    """Samples are numbered from 1: those that are heard come in order, none twice."""
    buffer, offered, told = Buffer(FRAME), 0, 0
    sounds: list[Int16] = []
    orders: list[int] = []
    for step in steps:
        if isinstance(step, int):
            buffer.put(numbered(offered, step))
            offered += step
        elif step == "order":
            buffer.put(Cancel(reply=str(told)))
            told += 1
        else:
            skipped = 3 * (step == "late")
            sound, given = filled(buffer, listens=step != "deaf", skipped=skipped)
            orders += ordered(given)
            sounds.append(sound[sound > 0])
        heard = sum(map(len, sounds))
        assert buffer.offered == offered == heard + buffer.dropped + buffer.held
        assert buffer.held <= CAP * FRAME
        assert buffer.room == CAP * FRAME - buffer.held
    assert (np.diff(np.concatenate([np.zeros(0), *sounds])) > 0).all()
    assert orders == list(range(len(orders)))


@given(st.integers(1, CAP * FRAME), st.integers(0, 3))
def test_nothing_waits_longer_than_it_was_waited_for(samples: int, before: int) -> None:
    buffer = Buffer(FRAME)
    for _ in range(before):
        filled(buffer)
    buffer.put(numbered(0, samples))
    buffer.put(Cancel(reply="0"))
    orders = [order for _ in range(2 * PREBUFFER + CAP + 2) for order in filled(buffer)[1]]
    assert buffer.dropped == buffer.held == 0
    assert len(orders) == 1


def test_sound_waits_until_two_frames_are_there_and_then_flows() -> None:
    buffer = Buffer(FRAME)
    heard = []
    for tick in range(6):
        buffer.put(numbered(tick * FRAME, FRAME))
        sound, _ = filled(buffer)
        heard.append(int(sound[0]))
    assert heard == [0, 1, 9, 17, 25, 33]


@given(st.integers(1, 60), st.integers(1, 2 * FRAME), st.integers(1, 3 * FRAME))
def test_after_a_late_piece_who_speaks_is_heard_as_soon_as_before(
    late: int, piece: int, begun: int
) -> None:
    """Time passes a sample at a time; for ``late`` of them nothing comes, and then all at once."""
    buffer, waits = Buffer(FRAME, 20 * FRAME), []
    buffer.real_time = True
    said = 0
    for now in range(60 * FRAME):
        late_now = 20 * FRAME <= now < 20 * FRAME + late
        if now % piece == 0 and not late_now:
            buffer.put(numbered(said, now - said))
            said = now
        if now % FRAME == begun % FRAME:
            sound, _ = filled(buffer)
            waits.append(now - int(sound.max()) if sound.any() else now)
    assert max(waits[-10:]) <= max(waits[5:15]) + FRAME


def test_where_sound_may_come_faster_than_it_is_spoken_all_of_it_is_heard() -> None:
    buffer, offered = Buffer(FRAME), 0
    for _ in range(100):
        room = buffer.room
        buffer.put(numbered(offered, room))
        offered += room
        filled(buffer)
    assert buffer.dropped == 0


def test_the_oldest_goes_first() -> None:
    buffer = Buffer(FRAME)
    buffer.put(numbered(0, 6 * FRAME))
    sound, _ = filled(buffer)
    assert sound[0] == 2 * FRAME + 1
    assert buffer.dropped == 2 * FRAME


@given(st.integers(1, 40), st.booleans())
def test_after_a_stall_callers_are_heard_as_soon_as_before(stalled: int, held_back: bool) -> None:
    """``held_back``: what was said meanwhile waited in a socket, and comes as fast as it can."""
    buffer, said, waits = Buffer(FRAME), 0, []
    backlog = 0
    for tick in range(20 + stalled + 40):
        backlog += FRAME
        if 20 <= tick < 20 + stalled:
            if not held_back:
                buffer.put(numbered(said, FRAME))
                said, backlog = said + FRAME, backlog - FRAME
            continue
        comes = min(backlog, buffer.room) if held_back else backlog
        buffer.put(numbered(said, comes))
        said, backlog = said + comes, backlog - comes
        sound, _ = filled(buffer, skipped=stalled if tick == 20 + stalled else 0)
        if sound.any():
            waits.append(said + backlog - int(sound.max()))
    assert waits[-1] == waits[10]
