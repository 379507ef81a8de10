"""What a caller sends, in order: sound and orders, the sound bounded.

A caller may send sound faster than it is heard. Beyond the room the oldest goes: live speech is
worth more than late speech. Every lost sample leaves its place, because positions count what was
offered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.contract import Order, Samples, Settings


@dataclass(frozen=True, slots=True)
class Gap:
    """``samples`` of the caller's sound were lost here."""

    samples: int


Entry = Samples | Gap | Order


class Intake:
    """The queue between a caller and its session.

    Args:
        capacity: samples of sound that may wait.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: deque[Entry] = deque()
        self.offered = self.dropped = self.held = 0
        """Samples: put in, lost, and waiting."""
        self.orders = 0
        """Orders that wait."""

    @property
    def room(self) -> int:
        """Samples that can be offered now without loss."""
        return self._capacity - self.held

    def put(self, entry: Samples | Order) -> None:
        """Adds sound or an order behind everything that waits. Orders are never lost."""
        if not isinstance(entry, np.ndarray):
            self._entries.append(entry)
            self.orders += 1
        elif len(entry):
            self._entries.append(entry)
            self.offered += len(entry)
            self.held += len(entry)
            if self.held > self._capacity:
                self._drop(self.held - self._capacity)

    def pop(self, most: int) -> Entry | None:
        """The next entry, of sound ``most`` samples at a time; None when nothing waits.

        With ``most`` 0 nothing but what stands before the next sound.
        """
        if not self._entries or (not most and isinstance(self._entries[0], np.ndarray)):
            return None
        entry = self._entries.popleft()
        if isinstance(entry, np.ndarray):
            if len(entry) > most:
                self._entries.appendleft(entry[most:])
                entry = entry[:most]
            self.held -= len(entry)
        elif not isinstance(entry, Gap):
            self.orders -= 1
        return entry

    def take(self, most: int) -> Iterator[Entry]:
        """Pops ``most`` samples in all, and what stands before and right behind them."""
        while (entry := self.pop(most)) is not None:
            if isinstance(entry, np.ndarray):
                most -= len(entry)
            yield entry

    def take_settings(self) -> Settings | None:
        """The first settings that wait, out of turn."""
        for index, entry in enumerate(self._entries):
            if isinstance(entry, Settings):
                del self._entries[index]
                self.orders -= 1
                return entry
        return None

    def _drop(self, samples: int) -> None:
        self.dropped += samples
        self.held -= samples
        before: list[Entry] = []
        while samples:
            entry = self._entries.popleft()
            if not isinstance(entry, np.ndarray):
                before.append(entry)
                continue
            lost = min(samples, len(entry))
            samples -= lost
            if lost < len(entry):
                self._entries.appendleft(entry[lost:])
            if before and isinstance(gap := before[-1], Gap):
                before[-1] = Gap(gap.samples + lost)
            else:
                before.append(Gap(lost))
        self._entries.extendleft(reversed(before))
