"""What the pacer promises: frames leave when due, and one call's fault touches no other."""

from __future__ import annotations

import asyncio
import time
from typing import cast

import numpy as np
import pytest

from engine.audio.resample import Resampler
from engine.contract import Samples
from server.observe import Metrics
from server.pacer import Line, Pacer
from server.playout import Paced
from server.transport.leg import Leg

RATE, FRAME = 24000, 480
WITHIN = 15.0


class Ear:
    """The part of a leg that the pacer knows."""

    def __init__(self, fails: bool = False) -> None:
        self.times: list[float] = []
        self._came = asyncio.Event()
        self._fails = fails

    def send(self, pcm: Samples) -> None:
        if self._fails:
            raise RuntimeError("no network")
        self.times.append(time.monotonic())
        self._came.set()

    async def heard(self, frames: int = 10) -> None:
        """Waits until so many frames have come."""
        async with asyncio.timeout(WITHIN):
            while len(self.times) < frames:
                self._came.clear()
                await self._came.wait()


def speak(playout: Paced, frames: int = 10) -> None:
    playout.push("r", np.ones(frames * FRAME, np.float32), 0)
    playout.finish("r")


def line(ear: Ear, failed: list[Exception], playout: Paced | None = None) -> Line:
    if playout is None:
        speak(playout := Paced(RATE, FRAME))
    resampler = Resampler(RATE, RATE)
    return Line(playout, cast("Leg", ear), resampler, lambda taken: None, failed.append)


async def test_frames_leave_at_the_pace_of_sound() -> None:
    metrics = Metrics()
    pacer, ear = Pacer(metrics), Ear()
    pacer.add(line(ear, []))
    await ear.heard()
    pacer.stop()
    assert len(ear.times) == 10
    assert ear.times[-1] - ear.times[0] > 0.17
    assert metrics.value("parley_frame_late_seconds_count") == 10


async def test_a_line_that_fails_is_told_and_the_others_go_on() -> None:
    pacer, ear, failed = Pacer(Metrics()), Ear(), list[Exception]()
    pacer.add(line(Ear(fails=True), failed))
    pacer.add(line(ear, []))
    await ear.heard()
    pacer.stop()
    assert [type(error) for error in failed] == [RuntimeError]


async def test_who_is_spoken_to_again_hears_it_once_the_pacer_is_woken() -> None:
    pacer, ear, playout = Pacer(Metrics()), Ear(), Paced(RATE, FRAME)
    served = line(ear, [], playout)
    pacer.add(served)
    for spoken in (4, 10):
        await asyncio.sleep(0.05)
        assert len(ear.times) in (0, 4)
        speak(playout, spoken - len(ear.times))
        pacer.wake(served)
        await ear.heard(spoken)
    pacer.stop()


async def test_after_a_stall_of_the_loop_no_frame_hurries() -> None:
    pacer, ear = Pacer(Metrics()), Ear()
    pacer.add(line(ear, []))
    await asyncio.sleep(0.05)
    time.sleep(0.15)  # noqa: ASYNC251 - it is what is tried
    stalled = time.monotonic()
    await ear.heard()
    pacer.stop()
    after = [at for at in ear.times if at >= stalled]
    assert after[-1] - after[0] > 0.014 * (len(after) - 1)


async def test_frames_of_many_calls_are_due_together(monkeypatch: pytest.MonkeyPatch) -> None:
    wakes = 0
    serve = Pacer._serve_due

    def counted(self: Pacer) -> None:
        nonlocal wakes
        wakes += 1
        serve(self)

    monkeypatch.setattr(Pacer, "_serve_due", counted)
    pacer, ears = Pacer(Metrics()), [Ear() for _ in range(20)]
    for ear in ears:
        pacer.add(line(ear, []))
        await asyncio.sleep(0.001)
    for ear in ears:
        await ear.heard()
    pacer.stop()
    assert wakes < 120, "with a moment for each of 200 frames there were 180 and more"


async def test_a_line_that_was_removed_is_served_no_more() -> None:
    pacer, ear = Pacer(Metrics()), Ear()
    served = line(ear, [])
    pacer.add(served)
    await ear.heard(1)
    pacer.remove(served)
    heard = len(ear.times)
    await asyncio.sleep(0.1)
    pacer.wake(served)
    await asyncio.sleep(0.05)
    pacer.stop()
    assert len(ear.times) == heard
