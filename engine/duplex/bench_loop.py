"""Whether the loop keeps time with a model of full size: ``python -m engine.duplex.bench_loop``.

PersonaPlex-7B in full size with random weights, every ring full from the first tick on; all slots
taken, every other caller sending noise in pieces of 20 ms and the rest nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path

import numpy as np

from engine.contract import CloseReason, Fault
from engine.duplex.bench import PERIOD_MS, random_checkpoint
from engine.duplex.build import Plan, build
from engine.duplex.loop import Batch, Loop
from engine.duplex.options import Choices
from engine.duplex.prompt import Prompt
from engine.duplex.seat import Frame, Seat
from engine.duplex.shapes import Shape
from engine.duplex.slots import Slots

PIECE = 480


class FullRings(Slots):
    """Callers who have talked for as long as the model looks back on, and as long again."""

    def begin(self, slot: int, choices: Choices, prompt: Prompt | None = None) -> None:
        """See ``Slots``."""
        super().begin(slot, choices, prompt)
        position = 2 * self._page * self._table.shape[1]
        self._device.inbox.position[slot] = self._position[slot] = position
        self._grow(slot, position)


class Ear:
    """A caller who counts."""

    def __init__(self) -> None:
        self.frames = self.spoken = self.skipped = 0
        self.gap = self.last = 0.0
        self.ended = ""

    def ticked(self, frame: Frame) -> None:
        """See ``Listener``."""
        now = time.monotonic()
        self.gap = max(self.gap, now - self.last if self.last else 0.0)
        self.last = now
        self.frames += 1 + frame.skipped
        self.skipped += frame.skipped
        self.spoken += frame.pcm is not None

    def end(self, reason: CloseReason, fault: Fault | None = None) -> None:
        """See ``Listener``."""
        self.ended = reason if fault is None else fault.message


async def measure(callers: int, seconds: float, window: int) -> dict[str, float | str]:
    """Callers on the clock for so many seconds."""

    def make() -> tuple[Batch, int]:
        plan = Plan(slots=callers, window=window, buckets=(callers,))
        built = build(random_checkpoint(Shape(dep_q=16)), plan)
        slots = FullRings(built.device, built.pages, plan.page, plan.chunk)
        return slots, round(PERIOD_MS * 1e6)

    loop = Loop(make)
    await loop.start()
    ears = [Ear() for _ in range(callers)]
    seats = [Seat(loop, ear, frame=1920) for ear in ears]
    await asyncio.gather(*(seat.take() for seat in seats))
    for number, seat in enumerate(seats):
        seat.begin(Choices(seed=number), None)
    before = loop.figures()
    await talk(seats[::2], seconds)
    figures = loop.figures()
    await loop.stop()
    return {
        "callers": callers,
        "ticks": figures["ticks"] - before["ticks"],
        "ticks_skipped": figures["ticks_skipped"] - before["ticks_skipped"],
        **{name: value for name, value in figures.items() if name.endswith("seconds")},
        "spoken_fewest": min(ear.spoken for ear in ears),
        "longest_gap_seconds": max(ear.gap for ear in ears),
        "samples_dropped": sum(seat.buffer.dropped for seat in seats),
        "ended": ", ".join({ear.ended for ear in ears if ear.ended}),
    }


async def talk(seats: list[Seat], seconds: float) -> None:
    """Each sends noise at real time."""
    noise = np.random.default_rng(0).normal(0, 0.1, PIECE).astype(np.float32)
    began = time.monotonic()
    for piece in range(int(seconds * 24000 / PIECE)):
        await asyncio.sleep(max(0.0, began + piece * PIECE / 24000 - time.monotonic()))
        for seat in seats:
            seat.put(noise)


def main() -> None:
    """Measures, and prints what came out."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--callers", type=int, default=256)
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--window", type=int, default=1500)
    options.add_argument("--json", type=Path)
    told = options.parse_args()
    result = json.dumps(asyncio.run(measure(told.callers, told.seconds, told.window)), indent=1)
    print(result)
    if told.json:
        told.json.write_text(result)


if __name__ == "__main__":
    main()
