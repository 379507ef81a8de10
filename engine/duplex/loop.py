"""The loop: one clock and one thread for every caller of a model.

The thread builds the model, owns it, and steps it at each tick of a drift-free clock: it takes a
frame from each caller's buffer, runs them in one batch, and gives each its own back, on the event
loop that it was started from. Callers join and leave between two ticks. A tick that comes late
skips those that it overran: they are counted, and their length of silence is emitted.

A fault in the model ends every session with a reason. The model is then built anew, unless that
has just been tried: then the loop has failed, and says so. A caller whose own numbers broke is
ended alone.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import structlog

from engine.audio.pcm import Int16
from engine.clock import Clock, Wait
from engine.contract import (
    EngineBusy,
    EngineError,
    EngineUnavailable,
    Fault,
    Order,
    State,
)
from engine.duplex.options import Choices
from engine.duplex.pulse import Pulse
from engine.duplex.seat import Frame, Listener, Seat
from engine.duplex.sounds import AT_ONCE, Sounds

if TYPE_CHECKING:
    from engine.duplex.prompt import Prompt

_STEADY = 60.0
"""Seconds after a fault during which another one is the last."""
_RETRY_AFTER = 1.0
_YOUNG = 50_000
"""Objects that the garbage collector lets come to be before it looks at them: more than the frames
of a tick. At its own 700 those frames would grow old in its eyes, and about once a second it would
look through all that was ever imported, for longer than a tick."""
_PATIENCE = 5.0
"""Seconds that a tick has to end when the loop is stopped."""

log = structlog.get_logger(__name__)


class Batch(Protocol):
    """What a loop steps: callers in slots, as ``engine.duplex.slots`` has them."""

    pcm: npt.NDArray[np.float32]
    """[slots, samples]: written before a tick; the others are read after it."""
    heard: npt.NDArray[np.float32]
    tokens: npt.NDArray[np.int64]
    """[slots, rows]: the text's first."""
    due: npt.NDArray[np.bool_]
    sane: npt.NDArray[np.bool_]
    primed: npt.NDArray[np.bool_]
    """[slots]: who may run. Those who have read their prompt."""

    def join(self, positions: int | None = None) -> int | None:
        """A slot for a caller of so many positions; None if there is none."""

    def begin(self, slot: int, choices: Choices, prompt: Prompt | None = None) -> None:
        """Lets it run, once it has read its prompt."""

    def leave(self, slot: int) -> None:
        """Takes it back."""

    def tick(self, run: npt.NDArray[np.bool_]) -> None:
        """Runs the slots that ``run`` [slots] names."""


class Loop:
    """Steps a model.

    Args:
        make: builds the model, in the loop's thread, and says how many nanoseconds its tick is.
    """

    def __init__(self, make: Callable[[], tuple[Batch, int]]) -> None:
        self._make = make
        self._batch: Batch
        self._sounds: Sounds
        self._period = 0
        self._pulse = Pulse()
        self._seats: dict[Seat, None] = {}
        self._asked: deque[Callable[[], None]] = deque()
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._faults = self._restarts = 0
        self.state: State = "starting"

    async def start(self) -> None:
        """Builds the model, and returns when its clock is about to run.

        Raises:
            EngineError: it cannot be built.
        """
        self._events = asyncio.get_running_loop()
        self._built: asyncio.Future[None] = self._events.create_future()
        self._gone: asyncio.Future[None] = self._events.create_future()
        self._over.clear()
        gc.set_threshold(_YOUNG)
        self._thread = threading.Thread(target=self._main, name="duplex", daemon=True)
        self._thread.start()
        await self._built

    async def stop(self) -> None:
        """Stops the clock and frees the model; one that hangs is left. Seats are not told."""
        if self._thread is not None:
            self._over.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._gone
                self._thread.join()
            self._thread = None
        self.state = "starting"

    def figures(self) -> dict[str, float]:
        """Counters and gauges."""
        return {
            **self._pulse.figures(),
            "faults": float(self._faults),
            "restarts": float(self._restarts),
        }

    async def admit(self, seat: Seat) -> None:
        """See ``Seat.take``."""
        if self.state != "ready":
            raise EngineUnavailable(f"the engine is {self.state}")
        taken: asyncio.Future[None] = self._events.create_future()
        self._waiting[taken] = None
        self.ask(partial(self._join, seat, taken))
        try:
            await taken
        except asyncio.CancelledError:
            seat.leave()
            raise
        finally:
            self._waiting.pop(taken, None)

    def ask(self, what: Callable[[], None]) -> None:
        """Has the thread do something before its next tick."""
        self._asked.append(what)

    # In the thread

    def begin(self, seat: Seat, choices: Choices, prompt: Prompt | None) -> None:
        """See ``Seat.begin``."""
        if seat in self._seats:
            self._batch.begin(seat.slot, choices, prompt)

    def leave(self, seat: Seat) -> None:
        """See ``Seat.leave``."""
        if seat in self._seats:
            del self._seats[seat]
            self._batch.leave(seat.slot)

    def _join(self, seat: Seat, taken: asyncio.Future[None]) -> None:
        slot = self._batch.join(seat.positions)
        if slot is None:
            self._tell(partial(_fail, taken, EngineBusy(_RETRY_AFTER)))
            return
        seat.slot = slot
        self._seats[seat] = None
        self._tell(partial(_grant, taken))

    def _tell(self, what: Callable[[], None]) -> None:
        self._events.call_soon_threadsafe(what)

    def _main(self) -> None:
        """Builds and runs the model until it is told to stop, or has failed for good."""
        broke = -_STEADY
        while self._build():
            try:
                self._run()
                break
            except Exception as error:
                self._break(error)
            broke, before = time.monotonic(), broke
            if broke - before < _STEADY:
                self.state = "failed"
                break
            self._restarts += 1
        self._drop()
        self._tell(partial(_grant, self._gone))

    def _build(self) -> bool:
        """Builds the model; False: it cannot be had, which has been told."""
        try:
            self._batch, self._period = self._make()
            self._sounds = Sounds(self._batch)
        except Exception as error:
            self.state = "failed"
            log.error("model cannot be built", exc_info=error)
            if not isinstance(error, EngineError):
                error = EngineError(f"duplex: {type(error).__name__}: {error}")
            self._tell(partial(_fail, self._built, error))
            return False
        self.state = "ready"
        self._tell(partial(_grant, self._built))
        return True

    def _drop(self) -> None:
        """Lets go of the model and its memory, and of what was asked for."""
        self._seats.clear()
        self._asked.clear()
        if hasattr(self, "_batch"):
            del self._batch, self._sounds
        gc.collect()
        waiting = tuple(self._waiting)  # Not whoever comes once the model is there again.
        self._tell(partial(_refuse, waiting, f"the engine is {self.state}"))

    def _break(self, error: Exception) -> None:
        """Ends every session: the model is broken."""
        self._faults += 1
        self.state = "starting"
        log.error("tick failed", sessions=len(self._seats), exc_info=error)
        fault = Fault("engine_failed", f"the model raised {type(error).__name__}")
        for seat in self._seats:
            self._tell(partial(seat.listener.end, "engine_failed", fault))
        self._drop()

    def _run(self) -> None:
        clock, epoch = Clock(self._period), time.monotonic_ns()
        while not self._over.is_set():
            elapsed = time.monotonic_ns() - epoch
            due = clock.poll(elapsed)
            if isinstance(due, Wait):
                self._over.wait(due.nanoseconds / 1e9)
                continue
            began = time.monotonic()
            self._tick(due.skipped)
            late = (elapsed - due.tick * self._period) / 1e9
            self._pulse.beat(late, time.monotonic() - began, due.skipped)

    def _tick(self, skipped: int) -> None:
        while self._asked:
            self._asked.popleft()()
        batch, seats = self._batch, list(self._seats)
        parts = [seats[at : at + AT_ONCE] for at in range(0, len(seats), AT_ONCE)]
        primed, run = batch.primed.tolist(), np.zeros_like(batch.primed)
        orders = [self._hear(part, primed, skipped) for part in parts]
        slots = [seat.slot for seat in seats]
        run[slots] = batch.primed[slots]
        batch.tick(run)
        due, tokens = (run & batch.sane & batch.due).tolist(), batch.tokens[:, 0].tolist()
        for part, given in zip(parts, orders, strict=True):
            own = [seat.slot for seat in part]
            frames = [
                (
                    seat.listener,
                    Frame(skipped, obeyed, pcm if due[slot] else None, level, tokens[slot]),
                )
                for seat, slot, obeyed, pcm, level in zip(
                    part, own, given, *self._sounds.say(own), strict=True
                )
            ]
            self._tell(partial(_hand_out, frames))
        sane = batch.sane.tolist()
        for seat in seats:
            if primed[seat.slot] and not (sane[seat.slot] and seat.left is None):
                self._account(seat, sane=sane[seat.slot])

    def _hear(self, seats: list[Seat], primed: list[bool], skipped: int) -> list[list[Order]]:
        """Lets the model hear a tick's share of each; returns the orders behind it."""
        pieces: list[Int16] = []
        orders = [seat.fill(pieces, listens=primed[seat.slot], skipped=skipped) for seat in seats]
        self._sounds.hear([seat.slot for seat in seats], pieces)
        return orders

    def _account(self, seat: Seat, *, sane: bool) -> None:
        """Ends the caller whose numbers broke, or whose last frame this was."""
        if seat.left is not None:
            seat.left -= 1
        if not sane:
            fault = Fault("engine_nan", "the model made sound that is not a number")
            self._faults += 1
            self._tell(partial(seat.listener.end, "engine_failed", fault))
        elif seat.left == 0:
            self._tell(partial(seat.listener.end, "too_long"))
        else:
            return
        self.leave(seat)


def _refuse(waiting: Iterable[asyncio.Future[None]], why: str) -> None:
    for taken in waiting:
        _fail(taken, EngineUnavailable(why))


def _grant(taken: asyncio.Future[None]) -> None:
    if not taken.done():
        taken.set_result(None)


def _fail(taken: asyncio.Future[None], error: EngineError) -> None:
    if not taken.done():
        taken.set_exception(error)


def _hand_out(frames: list[tuple[Listener, Frame]]) -> None:
    """Gives each its frame; one that cannot take it is ended, and no other."""
    for listener, frame in frames:
        try:
            listener.ticked(frame)
        except Exception as error:
            log.error("session failed", exc_info=error)
            message = f"the engine raised {type(error).__name__}"
            listener.end("engine_failed", Fault("engine_failed", message))
