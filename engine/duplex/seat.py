"""A caller's place in the loop, and what is told to whoever sits there."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.audio.pcm import Int16
from engine.contract import CloseReason, Fault, Order, Sound
from engine.duplex.buffer import Buffer
from engine.duplex.options import Choices

if TYPE_CHECKING:
    from engine.duplex.loop import Loop
    from engine.duplex.prompt import Prompt


class Frame(NamedTuple):
    """What a caller gets of a tick, after ``skipped`` others: sound and token where due.

    ``level`` is the sound's root mean square.
    """

    skipped: int
    orders: list[Order]
    pcm: Sound | None
    level: float
    token: int


class Listener(Protocol):
    """Who sits in a seat; told on the event loop."""

    def ticked(self, frame: Frame) -> None:
        """A tick has run."""

    def end(self, reason: CloseReason, fault: Fault | None = None) -> None:
        """The seat is gone."""


class Seat:
    """One caller's place, once it has been taken.

    Args:
        frame: samples of a tick.
        room: samples that may wait, see ``Buffer``.
        positions: the most that it will read and run; None: any number.
        frames: ticks that it may run, after which it ends as ``too_long``.
    """

    __slots__ = ("_lock", "_loop", "buffer", "left", "listener", "positions", "slot")

    def __init__(
        self,
        loop: Loop,
        listener: Listener,
        *,
        frame: int,
        room: int | None = None,
        positions: int | None = None,
        frames: int | None = None,
    ) -> None:
        self.listener = listener
        self.slot = -1
        self.positions, self.left = positions, frames
        self._loop = loop
        self.buffer = Buffer(frame, room)
        self._lock = threading.Lock()
        """Around the buffer: the caller fills it, the loop's thread takes from it."""

    async def take(self) -> None:
        """Takes the place, at the next border between ticks.

        Raises:
            EngineBusy: no slot is free, or its pages cannot be promised.
            EngineUnavailable: the loop does not run.
        """
        await self._loop.admit(self)

    def put(self, entry: Sound | Order) -> int:
        """Sound or an order of the caller's; returns the room that is left."""
        with self._lock:
            return self.buffer.put(entry)

    def fill(self, pieces: list[Int16], *, listens: bool, skipped: int) -> list[Order]:
        """In the loop's thread: takes a tick's share, see ``Buffer``."""
        with self._lock:
            return self.buffer.fill(pieces, listens=listens, skipped=skipped)

    def counts(self) -> tuple[int, int]:
        """Samples offered so far, and of these those that nobody will have heard."""
        with self._lock:
            return self.buffer.offered, self.buffer.dropped + self.buffer.held

    def begin(self, choices: Choices, prompt: Prompt | None) -> None:
        """Lets the model talk to the caller, from the next tick or when it has read ``prompt``."""
        self._loop.ask(partial(self._loop.begin, self, choices, prompt))

    def leave(self) -> None:
        """Gives the place back."""
        self._loop.ask(partial(self._loop.leave, self))
