"""The tick as a device runs it: static buffers in, one function, static buffers out.

Everything that differs between callers is data in a buffer: who runs, who starts anew and with
which tokens, how each samples, where its pages are. So one CUDA graph serves every mix of callers,
and nothing is allocated after the start. A graph is captured for each bucket, a number of slots
counted from the first; a CPU runs the same function as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

from engine.duplex.mimi import Mimi
from engine.duplex.step import Chosen, Stepper
from engine.duplex.temporal import Temporal

READ = 0
"""The graph that reads prompts; the others are called by their number of slots."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """Tensors that exist twice, on the host and on the device."""

    def send(self, other: Self, count: int) -> None:
        """Copies the first ``count`` of each; done once the device has been waited for."""
        for field in fields(self):
            source, target = getattr(self, field.name), getattr(other, field.name)
            target[:count].copy_(source[:count], non_blocking=True)

    def twin(self, device: torch.device) -> Self:
        """The same on the device."""
        names = [field.name for field in fields(self)]
        return type(self)(**{name: getattr(self, name).to(device, copy=True) for name in names})


@dataclass(frozen=True, slots=True)
class Inbox(Buffers):
    """What a tick is told, by slot."""

    pcm: Tensor
    """[slots, samples]."""
    run: Tensor
    reset: Tensor
    """Who starts anew: at ``position``, with ``columns`` and ``given`` as its token ring."""
    position: Tensor
    columns: Tensor
    given: Tensor
    temperature: Tensor
    """[slots, 2]: text, audio."""
    top_k: Tensor
    seed: Tensor


@dataclass(frozen=True, slots=True)
class Outbox(Buffers):
    """What a tick says, by slot."""

    pcm: Tensor
    """[slots, samples]: silence where nothing is due."""
    tokens: Tensor
    """[slots, predicted rows]: text first."""
    due: Tensor
    sane: Tensor
    """False where a number was none; what else the slot says then means nothing."""


@dataclass(frozen=True, slots=True)
class Reading(Buffers):
    """Positions of prompts to be read, by row; see ``prompt.Prompt``."""

    tokens: Tensor
    stored: Tensor
    slot: Tensor
    position: Tensor
    run: Tensor


class Device:
    """The model's parts and its tick.

    Args:
        voices: the stored embeddings of all voices, [any, dim].
        rows: positions of prompts that are read in one go.
        buckets: numbers of slots to capture graphs for, on a GPU.
    """

    def __init__(
        self,
        *,
        mimi: Mimi,
        temporal: Temporal,
        stepper: Stepper,
        voices: Tensor,
        frame: int,
        card: int,
        slots: int,
        rows: int,
        buckets: Iterable[int],
    ) -> None:
        self.mimi, self.temporal, self.stepper = mimi, temporal, stepper
        self._voices = voices
        self._card = card
        self.buckets = sorted({*buckets, slots})
        device = voices.device
        self._cuda = device.type == "cuda"
        self.inbox = self._inbox(slots, frame)
        self.reading = self._reading(rows)
        self.outbox = self._outbox(slots, frame)
        self.table = self._host(*temporal.ring.table.shape, dtype=torch.int32)
        """[slots, pages of a ring]: the host's copy of the ring's page table."""
        self._in, self._read = self.inbox.twin(device), self.reading.twin(device)
        self._out = self.outbox.twin(device)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.run = self.graph if self._cuda else self.eager
        """How ticks and readings are run."""
        if self._cuda:
            self._capture()

    def wait(self) -> None:
        """Returns when the device has done all that it was told: then host buffers may be used."""
        if self._cuda:
            torch.cuda.synchronize()

    def tick(self, slots: int) -> None:
        """Starts a tick of the first ``slots``: ``inbox`` in, ``outbox`` out."""
        bucket = next(b for b in self.buckets if b >= slots)
        self.inbox.send(self._in, bucket)
        self.run(bucket)
        self._out.send(self.outbox, bucket)

    def read(self) -> None:
        """Starts reading the positions in ``reading`` into their slots' rings."""
        self.reading.send(self._read, len(self.reading.run))
        self.run(READ)

    def send_table(self) -> None:
        """Tells the device whose pages are whose."""
        self.temporal.ring.table.copy_(self.table, non_blocking=True)

    def _tick(self, slots: int) -> None:
        told, out = self._in, self._out
        run, reset = told.run[:slots], told.reset[:slots]
        self.stepper.start(reset, told.position[:slots], told.columns[:slots], told.given[:slots])
        self.mimi.start(reset)
        codes, sane = self.mimi.encode(told.pcm[:slots], run)
        chosen = Chosen(told.temperature[:slots], told.top_k[:slots], told.seed[:slots])
        said = self.stepper(codes, run, chosen)
        spoken = said.tokens[:, 1 : 1 + codes.shape[1]].clamp(0, self._card - 1)
        pcm = self.mimi.decode(spoken, said.due)
        out.pcm[:slots] = torch.where(said.due[:, None], pcm, 0)
        out.tokens[:slots] = said.tokens
        out.due[:slots] = said.due
        sane &= said.sane & (pcm.isfinite().all(-1) | ~said.due)
        out.sane[:slots] = sane | ~run

    def _hear(self) -> None:
        told = self._read
        stored = told.stored[:, None]
        embedded = torch.where(
            stored >= 0,
            self._voices[told.stored.clamp_min(0)],
            self.temporal.embed(told.tokens),
        )
        places = self.temporal.ring.places(told.slot, told.position, told.run)
        self.temporal.hear(embedded, places)

    def graph(self, key: int) -> None:
        """Graph ``key``: a number of slots, or ``READ``."""
        self._graphs[key].replay()

    def eager(self, key: int) -> None:
        """What graph ``key`` was captured of."""
        if key == READ:
            self._hear()
        else:
            self._tick(key)

    def _capture(self) -> None:
        pool = torch.cuda.graph_pool_handle()
        for key in [*reversed(self.buckets), READ]:
            torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.Stream()):
                self.eager(key)
            torch.cuda.synchronize()
            self._graphs[key] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graphs[key], pool=pool):
                self.eager(key)

    def _inbox(self, slots: int, frame: int) -> Inbox:
        rows, span = self.stepper.tokens.shape[1:]
        return Inbox(
            pcm=self._host(slots, frame),
            run=self._host(slots, dtype=torch.bool),
            reset=self._host(slots, dtype=torch.bool),
            position=self._host(slots, dtype=torch.long),
            columns=self._host(slots, rows, span, dtype=torch.long),
            given=self._host(slots, rows, span, dtype=torch.bool),
            temperature=self._host(slots, 2),
            top_k=self._host(slots, 2, dtype=torch.long),
            seed=self._host(slots, dtype=torch.long),
        )

    def _outbox(self, slots: int, frame: int) -> Outbox:
        return Outbox(
            pcm=self._host(slots, frame),
            tokens=self._host(slots, self.stepper.said, dtype=torch.long),
            due=self._host(slots, dtype=torch.bool),
            sane=self._host(slots, dtype=torch.bool),
        )

    def _reading(self, rows: int) -> Reading:
        return Reading(
            tokens=self._host(rows, self.stepper.tokens.shape[1], dtype=torch.long),
            stored=self._host(rows, dtype=torch.long),
            slot=self._host(rows, dtype=torch.long),
            position=self._host(rows, dtype=torch.long),
            run=self._host(rows, dtype=torch.bool),
        )

    def _host(self, *size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(*size, dtype=dtype, pin_memory=self._cuda)
