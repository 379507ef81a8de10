"""Callers in slots: admission, priming, ticks.

A caller gets a slot if one is free and its pages can be promised. If it begins with a prompt, its
slot is primed first: every tick reads at most so many positions of all newcomers' prompts together,
in the order in which they came, so that those who talk are never late on their account. Then it
runs in every tick that it is told to, sits still in the others, and leaves whenever it likes;
nothing that it does shows in another slot.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.duplex.device import Device
from engine.duplex.options import Choices
from engine.duplex.pages import Pages
from engine.duplex.prompt import Prompt

Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class _Newcomer:
    slot: int
    prompt: Prompt
    done: int = 0


class Slots:
    """The callers of one device.

    ``pcm`` [slots, samples] is written before a tick; ``heard`` [slots, samples], ``tokens``
    [slots, predicted rows], ``due`` and ``sane`` [slots] are read after it.

    Args:
        pages: pages of the pool.
        chunk: positions of one prompt that are read in one tick, at most what the ring was built
            for.
    """

    def __init__(self, device: Device, pages: Pages, page: int, chunk: int) -> None:
        self._device = device
        self._pages = pages
        self._page = page
        self._chunk = chunk
        inbox, outbox = device.inbox, device.outbox
        self.pcm = inbox.pcm.numpy()
        self.heard, self.tokens = outbox.pcm.numpy(), outbox.tokens.numpy()
        self.due, self.sane = outbox.due.numpy(), outbox.sane.numpy()
        self._run, self._reset = inbox.run.numpy(), inbox.reset.numpy()
        self._table = device.table.numpy()
        count = len(self._run)
        self._free = list(range(count))
        self.primed = np.zeros(count, np.bool_)
        self._position = np.zeros(count, np.int64)
        self._newcomers: deque[_Newcomer] = deque()
        self._table_changed = False

    @property
    def free(self) -> int:
        """Slots that nobody has."""
        return len(self._free)

    def join(self, positions: int | None = None) -> int | None:
        """Gives a caller a slot; None if no slot is free or its pages cannot be promised.

        Args:
            positions: the most that it will read and run; None: any number.
        """
        if not self._free or not self._pages.promise(self._free[0], positions):
            return None
        return heapq.heappop(self._free)

    def begin(self, slot: int, choices: Choices, prompt: Prompt | None = None) -> None:
        """Lets a slot that was joined run, once it has read its prompt; at most once a stay.

        Args:
            choices: how its tokens are chosen.
            prompt: what it reads before it runs; PersonaPlex always has one.
        """
        self._tell(slot, choices, prompt)
        self._position[slot] = 0 if prompt is None else prompt.position
        self.primed[slot] = prompt is None
        if prompt is not None:
            self._newcomers.append(_Newcomer(slot, prompt))

    def leave(self, slot: int) -> None:
        """Takes the slot back; it may be another's at once."""
        self._pages.release(slot)
        self._table[slot] = 0
        self._table_changed = True
        self._run[slot] = self._reset[slot] = self.primed[slot] = False
        self._newcomers = deque(new for new in self._newcomers if new.slot != slot)
        heapq.heappush(self._free, slot)

    def tick(self, run: Bools) -> None:
        """Runs the slots that ``run`` [slots] names, less those that are not primed."""
        reads = self._prime()
        np.logical_and(run, self.primed, out=self._run)
        running = np.flatnonzero(self._run)
        for slot in running[self._position[running] % self._page == 0]:
            self._grow(int(slot), int(self._position[slot]))
        if self._table_changed:
            self._device.send_table()
            self._table_changed = False
        if reads:
            self._device.read()
        if len(running):
            self._device.tick(int(running[-1]) + 1)
        self._device.wait()
        self._position[running] += 1
        self._reset[running] = False

    def _tell(self, slot: int, choices: Choices, prompt: Prompt | None) -> None:
        inbox = self._device.inbox
        self._reset[slot] = True
        inbox.position[slot] = 0 if prompt is None else prompt.position
        inbox.columns.numpy()[slot] = 0 if prompt is None else prompt.columns
        inbox.given.numpy()[slot] = False if prompt is None else prompt.given
        inbox.temperature.numpy()[slot] = choices.text_temperature, choices.temperature
        inbox.top_k.numpy()[slot] = choices.text_top_k, choices.top_k
        inbox.seed[slot] = choices.seed

    def _prime(self) -> bool:
        """Lays out the next positions of the newcomers' prompts, as many as fit; if there are."""
        reading = self._device.reading
        tokens, stored = reading.tokens.numpy(), reading.stored.numpy()
        slots, positions = reading.slot.numpy(), reading.position.numpy()
        row, room = 0, len(slots)
        for new in list(self._newcomers):
            length = min(self._chunk, new.prompt.position - new.done, room - row)
            if not length:
                break
            rows, part = slice(row, row + length), slice(new.done, new.done + length)
            tokens[rows], stored[rows] = new.prompt.inputs[part], new.prompt.stored[part]
            slots[rows], positions[rows] = new.slot, range(part.start, part.stop)
            new.done, row = part.stop, rows.stop
            self._grow(new.slot, new.done - 1)
            if new.done == new.prompt.position:
                self._newcomers.remove(new)
                self.primed[new.slot] = True
        run = reading.run.numpy()
        run[:row], run[row:] = True, False
        return row > 0

    def _grow(self, slot: int, position: int) -> None:
        for index, page in self._pages.grow(slot, position):
            self._table[slot, index] = page
            self._table_changed = True
