"""A model that listens and speaks at once, simulated: each slot says what it hears, in one tick.

It is served as a real one is, by the loop and the sessions of ``engine.duplex``. Where sound begins
after silence it says a word, too.
"""

from __future__ import annotations

import heapq
import threading
import time

import numpy as np
import numpy.typing as npt

from engine.audio.resample import Resampler
from engine.duplex.engine import Duplex
from engine.duplex.facts import Facts
from engine.duplex.options import Choices
from engine.duplex.sounds import rms
from engine.simulated.faults import FaultToOrder, crash, keep_busy, struck
from engine.simulated.options import Options


def clocked(options: Options, tick: int) -> Duplex:
    """The engine that ``options`` describe, of ``tick`` input samples a frame."""
    rate, longest = options.input_rate, options.longest_session
    facts = Facts(
        info=options.info(),
        period=tick * 1_000_000_000 // rate,
        room=int(options.room * rate),
        audible=options.threshold,
        silence_ms=options.silence_ms,
        says=lambda: _word,
        choices=Choices,
        frames=None if longest is None else max(1, int(longest * rate / tick)),
    )
    return Duplex(lambda: (Echoes(options, facts.frame, facts.spoken), facts))


def _word(token: int) -> str:
    return f" sound {token}" if token else ""


class Echoes:
    """A ``Batch`` whose tokens count, in each slot, how often sound has begun."""

    def __init__(self, options: Options, frame: int, spoken: int) -> None:
        self._options = options
        slots = options.capacity
        self.pcm = np.zeros((slots, frame), np.float32)
        same = options.input_rate == options.output_rate
        self.heard = self.pcm if same else np.zeros((slots, spoken), np.float32)
        self.tokens = np.zeros((slots, 1), np.int64)
        self.due = self.sane = np.ones(slots, np.bool_)
        self._free = list(range(slots))  # a heap: the lowest are taken first
        self.primed, self._speaks = np.zeros((2, slots), np.bool_)
        self._begun, self._frames = np.zeros((2, slots), np.int64)
        self._resamplers: dict[int, Resampler] = {}
        self._faults: dict[int, list[FaultToOrder]] = {}

    def join(self, positions: int | None = None) -> int | None:
        """See ``Batch``."""
        return heapq.heappop(self._free) if self._free else None

    def begin(self, slot: int, choices: Choices, prompt: object = None) -> None:
        """See ``Batch``."""
        self.primed[slot], self._speaks[slot] = True, False
        self._begun[slot] = self._frames[slot] = 0
        self._resamplers[slot] = Resampler(self._options.input_rate, self._options.output_rate)
        self._faults[slot] = list(self._options.faults)

    def leave(self, slot: int) -> None:
        """See ``Batch``."""
        self.primed[slot] = False
        heapq.heappush(self._free, slot)

    def tick(self, run: npt.NDArray[np.bool_]) -> None:
        """See ``Batch``."""
        slots = np.flatnonzero(run).tolist()
        base, each = self._options.tick_cost
        time.sleep(base + each * len(slots))
        used = slots[-1] + 1 if slots else 0
        speaks = run.copy()
        speaks[:used] &= rms(self.pcm[:used]) >= self._options.threshold
        if self.heard is not self.pcm:
            for slot in slots:
                self.heard[slot] = self._resamplers[slot].push(self.pcm[slot])
        begins = speaks & ~self._speaks
        self._speaks = speaks
        self._begun += begins
        self._frames += speaks
        self.tokens[:, 0] = self._begun * begins
        if self._options.faults:
            for slot in np.flatnonzero(speaks).tolist():
                self._strike(slot)

    def _strike(self, slot: int) -> None:
        seconds = self._frames[slot] * self.pcm.shape[1] / self._options.input_rate
        for fault in struck(self._faults[slot], seconds):
            match fault.kind:
                case "slow":
                    time.sleep(fault.seconds)
                case "busy":
                    keep_busy(fault.seconds)
                case "stall":
                    threading.Event().wait()
                case "nan":
                    self.heard[slot] = np.nan
                case "crash":
                    crash()
