"""The loop: everyone's frame at every tick, whatever a caller or the model does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest

from engine.contract import CloseReason, EngineBusy, EngineError, EngineUnavailable, Fault, Sound
from engine.duplex.loop import Loop
from engine.duplex.options import Choices
from engine.duplex.seat import Frame, Seat
from engine.duplex.sounds import AT_ONCE

FRAME = 16
PERIOD = 0.03


class Echoes:
    """A batch whose slots say what they hear; ``happens`` may break it before tick number n."""

    def __init__(self, slots: int, happens: Callable[[Echoes, int], None]) -> None:
        self.pcm = np.zeros((slots, FRAME), np.float32)
        self.heard = np.zeros_like(self.pcm)
        self.tokens = np.zeros((slots, 2), np.int64)
        self.due, self.sane = np.zeros(slots, np.bool_), np.ones(slots, np.bool_)
        self.free = list(range(slots))
        self.primed = np.zeros(slots, np.bool_)
        self.ticks = 0
        self._happens = happens

    def join(self, positions: int | None = None) -> int | None:
        return self.free.pop(0) if self.free else None

    def begin(self, slot: int, choices: Choices, prompt: object = None) -> None:
        self.primed[slot] = True

    def leave(self, slot: int) -> None:
        self.primed[slot] = False
        self.sane[slot] = True
        self.free.append(slot)

    def tick(self, run: npt.NDArray[np.bool_]) -> None:
        self.heard[:], self.due[:] = self.pcm, run
        self.ticks += 1
        self._happens(self, self.ticks)


class Ear:
    """A caller who keeps what comes; every frame that it was sent must be there."""

    def __init__(self, loop: Loop, number: int, frames: int | None = None) -> None:
        self.seat = Seat(loop, self, frame=FRAME, frames=frames)
        self.number = number
        self.since = 0.0
        """Ticks that had been due when it came."""
        self.frames: list[Frame] = []
        self.ended: list[tuple[CloseReason, str]] = []

    def ticked(self, frame: Frame) -> None:
        assert not self.ended
        self.frames.append(frame)

    def end(self, reason: CloseReason, fault: Fault | None = None) -> None:
        self.ended.append((reason, fault.code if fault else ""))

    @property
    def length(self) -> int:
        """Ticks that it was sent a frame for."""
        return sum(1 + frame.skipped for frame in self.frames)

    @property
    def sound(self) -> list[float]:
        """What it heard in the frames that held sound."""
        pieces = [frame.pcm for frame in self.frames if frame.pcm is not None]
        return [float(piece[0]) for piece in pieces if piece.any()]

    def piece(self) -> Sound:
        return np.full(FRAME, self.number, np.int16)


def nothing(batch: Echoes, tick: int) -> None:
    """Happens."""


@asynccontextmanager
async def running(
    slots: int = 4, happens: Callable[[Echoes, int], None] = nothing
) -> AsyncIterator[Loop]:
    loop = Loop(lambda: (Echoes(slots, happens), round(PERIOD * 1e9)))
    await loop.start()
    try:
        yield loop
    finally:
        await loop.stop()


def ticks(loop: Loop) -> float:
    """Those that were due so far."""
    figures = loop.figures()
    return figures["ticks"] + figures["ticks_skipped"]


async def seated(loop: Loop, *numbers: int, frames: int | None = None) -> list[Ear]:
    """Callers who come between the same two ticks: the loop is held there until all have asked."""
    ears = [Ear(loop, number, frames) for number in numbers]
    asked = threading.Event()

    def hold() -> None:
        asked.wait(5.0)
        for ear in ears:
            ear.since = ticks(loop)

    loop.ask(hold)
    taking = [asyncio.create_task(ear.seat.take()) for ear in ears]
    await asyncio.sleep(0)
    asked.set()
    await asyncio.gather(*taking)
    for ear in ears:
        ear.seat.begin(Choices(), None)
    return ears


async def until(what: Callable[[], bool], within: float = 15.0) -> None:
    async with asyncio.timeout(within):
        while not what():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


def ended(ears: list[Ear]) -> bool:
    return all(ear.ended for ear in ears)


async def talk(ears: list[Ear], ticks: int) -> None:
    """Each sends a frame of its own sound a tick."""
    for _ in range(ticks):
        for ear in ears:
            with suppress(EngineError):
                ear.seat.put(ear.piece())
        await asyncio.sleep(PERIOD)


def gapless(ears: list[Ear]) -> None:
    """All of them were sent equally many frames, and heard nobody else."""
    assert len({ear.length for ear in ears}) == 1
    for ear in ears:
        assert set(ear.sound) == {float(ear.number)}


async def test_each_caller_hears_its_own_sound_and_a_frame_at_every_tick() -> None:
    async with running() as loop:
        ears = await seated(loop, 1, 2, 3)
        await talk(ears, 10)
        assert loop.figures()["faults"] == 0
    assert ears[0].length == ticks(loop) - ears[0].since
    gapless(ears)


async def test_more_callers_than_are_served_at_once_each_hear_their_own() -> None:
    callers = 2 * AT_ONCE + 7
    async with running(slots=callers) as loop:
        ears = await seated(loop, *range(1, callers + 1))
        await talk(ears, 8)
        await until(lambda: all(ear.sound for ear in ears))
    gapless(ears)


async def test_whoever_comes_when_all_slots_are_taken_is_turned_away_until_one_is_free() -> None:
    async with running(slots=2) as loop:
        first, _ = await seated(loop, 1, 2)
        with pytest.raises(EngineBusy):
            await Ear(loop, 3).seat.take()
        first.seat.leave()
        await seated(loop, 4)


async def test_an_entry_that_is_given_up_takes_no_slot() -> None:
    async with running(slots=1) as loop:
        taking = asyncio.create_task(Ear(loop, 1).seat.take())
        await asyncio.sleep(0)
        taking.cancel()
        await asyncio.sleep(3 * PERIOD)
        await seated(loop, 2)


async def test_ticks_that_a_slow_one_overran_are_counted_and_their_silence_is_sent() -> None:
    def slow(batch: Echoes, tick: int) -> None:
        if tick == 20:
            time.sleep(4.5 * PERIOD)

    async with running(happens=slow) as loop:
        ears = await seated(loop, 1, 2)
        await until(lambda: loop.figures()["ticks_skipped"] >= 3)
        await talk(ears, 8)
    gapless(ears)
    assert max(frame.skipped for frame in ears[0].frames) >= 3


async def test_numbers_that_break_end_their_caller_and_nobody_else() -> None:
    def breaks(batch: Echoes, tick: int) -> None:
        broken = batch.pcm[:, 0] == 2 / 32768
        batch.heard[broken], batch.sane[broken] = np.nan, False

    async with running(happens=breaks) as loop:
        ears = await seated(loop, 1, 2, 3)
        await talk(ears, 10)
        assert loop.figures()["faults"] == 1
        assert ears[1].ended == [("engine_failed", "engine_nan")]
        assert not ears[1].sound
        await seated(loop, 4, 5)
    gapless([ears[0], ears[2]])


async def test_a_call_ends_when_its_frames_are_used_up() -> None:
    async with running() as loop:
        (short,) = await seated(loop, 1, frames=5)
        (other,) = await seated(loop, 2)
        await until(lambda: bool(short.ended))
        assert short.ended == [("too_long", "")]
        assert sum(frame.pcm is not None for frame in short.frames) == 5
        assert not other.ended


async def test_a_model_that_raises_ends_everybody_with_a_reason_and_is_built_anew_once() -> None:
    def raises(batch: Echoes, tick: int) -> None:
        if (batch.pcm == 9 / 32768).any():
            raise RuntimeError("device lost")

    async with running(happens=raises) as loop:
        for restarts in (1, 1):
            ears = await seated(loop, 1, 2)
            for _ in range(2):
                ears[0].seat.put(np.full(FRAME, 9, np.int16))
            await until(partial(ended, ears))
            assert [ear.ended for ear in ears] == [[("engine_failed", "engine_failed")]] * 2
            await until(lambda: loop.state != "starting")
            assert loop.figures()["restarts"] == restarts
        assert loop.state == "failed"
        with pytest.raises(EngineUnavailable):
            await Ear(loop, 3).seat.take()


async def test_a_model_that_cannot_be_built_says_why() -> None:
    def cannot() -> tuple[Echoes, int]:
        raise EngineError("duplex: it does not fit")

    loop = Loop(cannot)
    with pytest.raises(EngineError, match="does not fit"):
        await loop.start()
    assert loop.state == "failed"
    await loop.stop()


async def test_a_caller_who_floods_loses_its_own_oldest_sound_and_disturbs_nobody() -> None:
    async with running() as loop:
        ears = await seated(loop, 1, 2)
        for _ in range(20):
            ears[1].seat.put(np.full(100 * FRAME, 2, np.int16))
            await talk(ears[:1], 1)
        await until(lambda: ears[1].seat.buffer.held == 0)
        buffer = ears[1].seat.buffer
        assert buffer.offered == 20 * 100 * FRAME
        assert buffer.dropped >= 20 * 96 * FRAME
        assert ears[0].seat.buffer.dropped <= 2 * FRAME
    gapless(ears)
