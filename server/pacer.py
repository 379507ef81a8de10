"""The pacer: hands every frame of every call to its leg when it is due.

One timer serves all calls of the process. It waits until the earliest frame is due, and sends all
that are due then; while nobody is spoken to there is none. What is due when is each playout's own
decision (:class:`server.playout.Paced`), on a grid that all of them share; this is their clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.audio.pcm import floats
from engine.audio.resample import Resampler
from server.observe import Metrics
from server.playout import Paced, Taken
from server.transport.leg import Leg


@dataclass(frozen=True, slots=True, eq=False)
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
                self.leg.send(self.resampler.push(floats(taken.pcm)))
            self.taken(taken)
        return self.playout.wake(now)


class Pacer:
    """The lines that the process serves, by when they are due; ``metrics`` count how late frames
    are.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._late = metrics.frame_late
        self._lines: set[Line] = set()
        self._idle: set[Line] = set()
        self._due: dict[int, list[Line]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, line: Line) -> None:
        """Serves ``line`` from now on."""
        self._lines.add(line)
        self._idle.add(line)
        self.wake(line)

    def remove(self, line: Line) -> None:
        """Serves ``line`` no more."""
        self._lines.discard(line)
        self._idle.discard(line)

    def wake(self, line: Line) -> None:
        """Looks at ``line`` again: its playout may have something to hand out, which leaves now.

        One that waits for its next frame has no need of it, and costs nothing.
        """
        if line in self._idle:
            self._idle.remove(line)
            self._serve(line, time.monotonic_ns())
            self._arm()

    def stop(self) -> None:
        """Serves nobody any more."""
        self._lines.clear()
        self._idle.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        """Sees to it that the earliest moment is not missed."""
        if self._due:
            at = min(self._due) / 1e9
            if self._timer is not None and at < self._timer.when():
                self._timer.cancel()
                self._timer = None
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_at(at, self._serve_due)

    def _serve_due(self) -> None:
        self._timer = None
        now = time.monotonic_ns()
        for due in sorted(due for due in self._due if due <= now):
            for line in self._due.pop(due, ()):
                self._serve(line, now)
        self._arm()

    def _serve(self, line: Line, now: int) -> None:
        if line not in self._lines:
            return
        try:
            due = line.send_due(now, self._late)
        except Exception as error:
            self._lines.discard(line)
            line.failed(error)
            return
        if due is not None:
            self._due.setdefault(due, []).append(line)
        elif line in self._lines:  # It may have ended with what it sent.
            self._idle.add(line)
