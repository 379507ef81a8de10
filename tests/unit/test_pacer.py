"""What the pacer promises: frames leave when due, and one call's fault touches no other."""

from __future__ import annotations

import asyncio
import time
from typing import cast

import numpy as np

from engine.audio.resample import Resampler
from engine.contract import Samples
from server.observe import Metrics
from server.pacer import Line, Pacer
from server.playout import Paced
from server.transport.leg import Leg

RATE, FRAME = 24000, 480


class Ear:
    """The part of a leg that the pacer knows."""

    def __init__(self, fails: bool = False) -> None:
        self.times: list[float] = []
        self._fails = fails

    def send(self, pcm: Samples) -> None:
        if self._fails:
            raise RuntimeError("no network")
        self.times.append(time.monotonic())


def line(ear: Ear, failed: list[Exception]) -> Line:
    playout = Paced(RATE, FRAME)
    playout.push("r", np.ones(10 * FRAME, np.float32), 0)
    playout.finish("r")
    resampler = Resampler(RATE, RATE)
    return Line(playout, cast("Leg", ear), resampler, lambda taken: None, failed.append)


async def test_frames_leave_at_the_pace_of_sound() -> None:
    metrics = Metrics()
    pacer, ear = Pacer(metrics), Ear()
    pacer.add(line(ear, []))
    await asyncio.sleep(0.4)
    await pacer.stop()
    assert len(ear.times) == 10
    assert ear.times[-1] - ear.times[0] > 0.17
    assert metrics.value("parley_frame_late_seconds_count") == 10


async def test_a_line_that_fails_is_told_and_the_others_go_on() -> None:
    pacer, ear, failed = Pacer(Metrics()), Ear(), list[Exception]()
    pacer.add(line(Ear(fails=True), failed))
    pacer.add(line(ear, []))
    await asyncio.sleep(0.4)
    await pacer.stop()
    assert len(ear.times) == 10
    assert [type(error) for error in failed] == [RuntimeError]
