"""What attention remembers: the newest keys and values of every slot, in pages.

The position of a query tells the position of everything in its ring: the entry at index ``i`` is
``(position - i) mod capacity`` positions old, so nothing is kept beside keys and values, and a
reused slot needs no clearing: what is older than its first position is never read. Several
positions of one slot may be written before the first of them is read, as long as they are at most
``chunk``: the capacity is that much longer than the window.

Entries are kept as they are computed, or as 8-bit integers with one scale for each position and
head: half the memory, and attention off by about 0.9 % at the published size. 8-bit floats would
need no scale, but round to four bits: four times that error.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.duplex.options import Entries


class Places(NamedTuple):
    """Where rows stand: [rows] each. A row that does not run writes to nobody's page."""

    slot: Tensor
    position: Tensor
    window: Tensor
    """Positions that each sees, itself included."""
    page: Tensor
    entry: Tensor


def rotation(position: Tensor, size: int, period: float) -> Tensor:
    """Rotary embedding of [rows] positions: [rows, 1, 1, size / 2], complex."""
    pair = torch.arange(size // 2, device=position.device, dtype=torch.float32)
    angle = position.float()[:, None] * torch.exp(pair * (-math.log(period) * 2 / size))
    return torch.polar(torch.ones_like(angle), angle)[:, None, None]


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """Turns neighbouring channels of ``x`` [rows, ..., heads, size] as pairs."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)


def pages_of_a_ring(window: int, chunk: int, page: int) -> int:
    """Pages that hold a window and the positions that are written ahead of a read."""
    return -(-(window + chunk - 1) // page)


class Ring:
    """The rings of all slots and layers.

    Args:
        pages: that ``table`` will give out to slots; None gives each its whole ring for good.
        window: the most positions that a query sees, itself included.
        chunk: positions of one slot that may be written before they are read.
        page: positions of a page.
    """

    def __init__(
        self,
        *,
        layers: int,
        heads: int,
        size: int,
        slots: int,
        window: int,
        chunk: int,
        page: int = 64,
        pages: int | None = None,
        entries: Entries = "bfloat16",
        device: torch.device | str = "cpu",
    ) -> None:
        self.window = window
        self.page = page
        self.per_slot = pages_of_a_ring(window, chunk, page)
        self.capacity = self.per_slot * page
        whole = slots * self.per_slot
        count = 1 + (whole if pages is None else pages)
        self.entries = torch.zeros(
            layers, 2, count, heads, page, size, dtype=getattr(torch, entries), device=device
        )
        self.scales: Tensor | None = None
        if entries == "int8":
            self.scales = torch.zeros(layers, 2, count, heads, page, device=device)
        table = torch.zeros(slots, self.per_slot, dtype=torch.int32, device=device)
        if pages is None:
            table = 1 + torch.arange(whole, dtype=torch.int32, device=device).view_as(table)
        self.table = table
        """[slots, pages of a ring]: the page of each part of a slot's ring, 0 where it has none."""

    def places(
        self, slot: Tensor, position: Tensor, run: Tensor, window: Tensor | None = None
    ) -> Places:
        """Where rows stand; one that does not run looks back at nothing."""
        index = position % self.capacity
        page = self.table[slot, index // self.page].long()
        return Places(
            slot,
            torch.where(run, position, 0),
            torch.full_like(position, self.window) if window is None else window,
            torch.where(run, page, 0),
            index % self.page,
        )

    def store(self, layer: int, triple: Tensor, turn: Tensor, places: Places) -> Tensor:
        """Stores the rotated keys and the values of ``triple`` [rows, 3, heads, size].

        ``turn`` [rows, 1, 1, size / 2] is the rotation. Returns the rotated queries.
        """
        if triple.is_cuda:
            from engine.duplex import kernel

            return kernel.store(self, layer, triple, turn, places)
        return self.store_plainly(layer, triple, turn, places)

    def attend(self, layer: int, query: Tensor, places: Places) -> Tensor:
        """Attention of ``query`` [rows, heads, size] over each row's ring, of the same size."""
        if query.is_cuda:
            from engine.duplex import kernel

            return kernel.attend(self, layer, query, places)
        return self.attend_plainly(layer, query, places)

    def store_plainly(self, layer: int, triple: Tensor, turn: Tensor, places: Places) -> Tensor:
        """:meth:`store` in plain PyTorch: what the kernel is checked against."""
        query, key = rotate(triple[:, :2], turn).unbind(1)
        self.write(layer, torch.stack([key, triple[:, 2]], 1), places)
        return query

    def write(self, layer: int, pairs: Tensor, places: Places) -> None:
        """Stores keys and values, ``pairs`` [rows, 2, heads, size].

        What is not a number is stored as 0: entries outlive their call, and the next owner of a
        page multiplies those that it must not see by 0.
        """
        pairs = pairs.nan_to_num(0.0, 0.0, 0.0)
        if self.scales is not None:
            scale = (pairs.abs().amax(-1).float() / 127).clamp_min(1e-12)
            self.scales[layer][:, places.page, :, places.entry] = scale
            pairs = (pairs / scale[..., None]).round()
        stored = self.entries[layer]
        stored[:, places.page, :, places.entry] = pairs.to(stored.dtype)

    def attend_plainly(self, layer: int, query: Tensor, places: Places) -> Tensor:
        """:meth:`attend` in plain PyTorch: what the kernel is checked against."""
        table = self.table[places.slot]
        pairs = self.entries[layer][:, table].float()
        if self.scales is not None:
            pairs = pairs * self.scales[layer][:, table][..., None]
        keys, values = pairs.transpose(2, 3).flatten(3, 4)
        index = torch.arange(self.capacity, device=query.device)
        age = (places.position[:, None] - index) % self.capacity
        seen = (age < places.window[:, None]) & (age <= places.position[:, None])
        heard = F.scaled_dot_product_attention(
            query.float()[:, :, None], keys, values, attn_mask=seen[:, None, None]
        )
        return heard[:, :, 0].to(query.dtype)
