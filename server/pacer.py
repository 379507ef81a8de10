"""The pacer: hands every frame of every call to its leg when it is due.

One task serves all calls of the process. It sleeps until the earliest frame is due, sends all that
are due then, and sleeps for good while nobody is spoken to. What is due is each playout's own
decision (:class:`server.playout.Paced`); this is its clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.audio.resample import Resampler
from server.observe import Metrics
from server.playout import Paced, Taken
from server.transport.leg import Leg


@dataclass(frozen=True, slots=True)
class Line:
    """One caller's way out.

    ``leg`` takes the frames that sound, where there is one, ``taken`` hears of every frame that was
    handed out, ``failed`` of what went wrong with one: the line is served no more then, and all
    others are.
    """

    playout: Paced
    leg: Leg | None
    resampler: Resampler | None
    taken: Callable[[Taken], None]
    failed: Callable[[Exception], None]

    def send_due(self, now: int, late: Callable[[float], None]) -> int | None:
        """Sends the frame that is due at ``now``, if any, and tells how many seconds late it was;
        returns when the next one is.
        """
        due = self.playout.wake(now)
        if due is None or due > now:
            return due
        taken = self.playout.take(now)
        if taken is not None:
            late((now - due) / 1e9)
            if self.leg is not None and self.resampler is not None and not taken.silent:
                self.leg.send(self.resampler.push(taken.pcm))
            self.taken(taken)
        return self.playout.wake(now)


class Pacer:
    """The process's pacing task and the lines it serves; ``metrics`` count how late frames are."""

    def __init__(self, metrics: Metrics) -> None:
        self._late = metrics.frame_late
        self._lines: set[Line] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, line: Line) -> None:
        """Serves ``line`` from now on."""
        self._lines.add(line)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="pacer")
        self.wake()

    def remove(self, line: Line) -> None:
        """Serves ``line`` no more."""
        self._lines.discard(line)

    def wake(self) -> None:
        """Looks again: a playout may have something to hand out now."""
        self._changed.set()

    async def stop(self) -> None:
        """Ends the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _serve(self, line: Line, now: int) -> int | None:
        try:
            return line.send_due(now, self._late)
        except Exception as error:
            self._lines.discard(line)
            line.failed(error)
            return None

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            now = time.monotonic_ns()
            dues = [due for line in tuple(self._lines) if (due := self._serve(line, now))]
            if not dues:
                await self._changed.wait()
                continue
            wait = max(0, min(dues) - time.monotonic_ns()) / 1e9
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue
