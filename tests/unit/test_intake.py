"""No sample of the caller's is lost without a trace, and nothing overtakes anything."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import Clear, Samples, Settings
from engine.intake import Gap, Intake
from engine.turns.sound import CallerSound

steps = st.lists(st.one_of(st.integers(1, 60), st.just("order"), st.just("pop")), max_size=80)


def counting(start: int, count: int) -> Samples:
    return np.arange(start, start + count, dtype=np.float32)


@given(steps, st.integers(1, 50))
def test_every_sample_is_heard_or_its_loss_is_known_in_its_place(
    steps: list[int | str], most: int
) -> None:
    intake, taken, position, heard = Intake(100), 0, 0, 0
    orders: list[int] = []

    def take() -> None:
        nonlocal heard, position, taken
        entry = intake.pop(most)
        if isinstance(entry, Gap):
            position += entry.samples
        elif isinstance(entry, np.ndarray):
            assert len(entry) <= most
            assert np.array_equal(entry, counting(position, len(entry)))
            position += len(entry)
            heard += len(entry)
        elif entry is not None:
            assert orders[taken] == position
            taken += 1

    for step in steps:
        if step == "pop":
            take()
        elif step == "order":
            orders.append(intake.offered)
            intake.put(Clear())
        else:
            intake.put(counting(intake.offered, int(step)))
        assert 0 <= intake.room <= 100
        assert intake.offered == heard + intake.dropped + intake.held
        assert intake.orders == len(orders) - taken
    for _ in range(400):
        take()
    assert position == intake.offered
    assert taken == len(orders)
    assert intake.room == 100


def test_the_oldest_sound_goes_first() -> None:
    intake = Intake(100)
    for start in range(0, 300, 50):
        intake.put(counting(start, 50))
    assert intake.dropped == 200
    assert intake.pop(10) == Gap(200)
    pcm = intake.pop(50)
    assert isinstance(pcm, np.ndarray)
    assert pcm[0] == 200


def test_so_much_is_taken_and_the_orders_behind_it() -> None:
    intake = Intake(100)
    for entry in (Clear(), counting(0, 30), Clear(), counting(30, 30), counting(0, 0)):
        intake.put(entry)
    sizes = [len(e) if isinstance(e, np.ndarray) else 0 for e in intake.take(30)]
    assert sizes == [0, 30, 0]
    assert list(intake.take(0)) == []
    assert intake.held == 30


def test_settings_can_be_had_before_their_turn() -> None:
    intake = Intake(100)
    intake.put(counting(0, 10))
    intake.put(Settings(id="first"))
    assert intake.take_settings() == Settings(id="first")
    assert intake.take_settings() is None
    assert intake.orders == 0


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(0, 400), st.integers(0, 400))
def test_sound_is_found_by_its_position_however_it_came(
    sizes: list[int], start: int, end: int
) -> None:
    sound = CallerSound(capacity=100, chunk=16)
    chunks = []
    for size in sizes:
        sound.append(counting(sound.end, size))
        chunks += list(sound.chunks())
    first = max(0, sum(sizes) - 100, start)
    assert np.array_equal(
        sound.take(start, end), counting(first, max(0, min(end, sound.end) - first))
    )
    assert [at for at, _ in chunks] == list(range(0, sum(sizes) - 15, 16))
    assert all(np.array_equal(pcm, counting(at, 16)) for at, pcm in chunks)


def test_lost_sound_is_silence_in_its_place() -> None:
    sound = CallerSound(capacity=100, chunk=16)
    sound.append(counting(1, 10))
    sound.skip(1000)
    sound.append(counting(1, 20))
    assert [at for at, _ in sound.chunks()] == [1010]
    assert sound.take(1000, 1012).tolist() == [0] * 10 + [1, 2]
