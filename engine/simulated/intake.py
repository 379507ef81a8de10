"""What a session was given and has not yet acted on: sound and orders in one order, sound bounded.

At any time, ``offered == taken + dropped + held``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.contract import Order, Samples

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Heard:
    """Sound whose first sample is at position ``at``."""

    at: int
    pcm: Samples

    def split(self, samples: int) -> tuple[Heard, Heard]:
        """The first ``samples``, and the rest."""
        rest = Heard(self.at + samples, self.pcm[samples:])
        return Heard(self.at, self.pcm[:samples]), rest


class Intake:
    """The queue; holds at most ``capacity`` samples, the newest."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._queue: deque[Heard | Order] = deque()
        self.offered = self.dropped = self.held = 0
        self.orders = 0

    @property
    def room(self) -> int:
        """Samples that fit before the oldest are dropped."""
        return self._capacity - self.held

    def hear(self, pcm: Samples) -> None:
        """Appends sound; drops the oldest where there is no room."""
        if len(pcm):
            self._queue.append(Heard(self.offered, pcm))
        self.offered += len(pcm)
        self.held += len(pcm)
        if self.held > self._capacity:
            self._drop(self.held - self._capacity)

    def order(self, order: Order) -> None:
        """Appends an order; orders are never dropped."""
        self._queue.append(order)
        self.orders += 1

    def take(self, limit: int | None = None) -> Iterator[Heard | Order]:
        """Takes what is at the front, up to ``limit`` samples and the orders behind them."""
        left = self.held if limit is None else limit
        while self._queue:
            front = self._queue[0]
            if isinstance(front, Heard):
                if not left:
                    return
                front = self._cut(left)
                left -= len(front.pcm)
            else:
                self._queue.popleft()
                self.orders -= 1
            yield front

    def _cut(self, samples: int) -> Heard:
        """Removes the sound at the front, ``samples`` of it at most."""
        front = self._queue.popleft()
        assert isinstance(front, Heard)
        if len(front.pcm) > samples:
            front, rest = front.split(samples)
            self._queue.appendleft(rest)
        self.held -= len(front.pcm)
        return front

    def _drop(self, samples: int) -> None:
        """Removes the oldest sound; the orders between stay where they are."""
        orders: list[Order] = []
        while samples:
            front = self._queue[0]
            if isinstance(front, Heard):
                dropped = len(self._cut(samples).pcm)
                self.dropped += dropped
                samples -= dropped
            else:
                orders.append(front)
                self._queue.popleft()
        self._queue.extendleft(reversed(orders))
