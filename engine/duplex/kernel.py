"""Attention over paged rings for a GPU, in one kernel that reads the entries as they are stored.

One program answers one row and head. It walks the pages that its slot has written, a block of
entries at a time, with the softmax kept as running maximum and sum; 8-bit entries are widened in
registers, so a tick moves each stored byte once and nothing else. That is what bounds it: a query
is a single vector, there is no reuse for tensor cores to win. Sums stay spread over the block's
rows until the end, so the loop needs no reduction but the scores' own.

Without a GPU the same code runs in Triton's interpreter (``TRITON_INTERPRET=1``), for tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from torch import Tensor

    from engine.duplex.ring import Places, Ring

BLOCK = 32
WARPS = 4
LOG2_E = 1.4426950408889634


def _attend(  # type: ignore[no-untyped-def,unused-ignore]
    query,
    out,
    keys,
    values,
    key_scales,
    value_scales,
    table,
    slots,
    positions,
    windows,
    factor,
    per_slot,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    SCALED: tl.constexpr,
):
    row = tl.program_id(0)
    head = tl.program_id(1)
    channel = tl.arange(0, SIZE)
    lane = tl.arange(0, BLOCK)
    position = tl.load(positions + row)
    window = tl.load(windows + row)
    pages = table + tl.load(slots + row) * per_slot
    place = (row * HEADS + head) * SIZE + channel
    asked = tl.load(query + place).to(tl.float32) * factor

    capacity = per_slot * PAGE
    newest = position % capacity
    written = tl.minimum(position + 1, capacity)
    top = -1.0e30
    total = tl.zeros([BLOCK], tl.float32)
    heard = tl.zeros([BLOCK, SIZE], tl.float32)
    for first in range(0, written, BLOCK):
        page = tl.load(pages + first // PAGE).to(tl.int64)
        age = newest - (first + lane)
        age = tl.where(age < 0, age + capacity, age)
        seen = (age < window) & (age <= position)
        entry = (page * HEADS + head) * PAGE + first % PAGE + lane
        where = entry[:, None] * SIZE + channel[None, :]
        key = tl.load(keys + where).to(tl.float32)
        value = tl.load(values + where).to(tl.float32)
        score = tl.sum(key * asked[None, :], 1)
        if SCALED:
            score = score * tl.load(key_scales + entry)
        score = tl.where(seen, score, -1.0e30)
        higher = tl.maximum(top, tl.max(score, 0))
        weight = tl.where(seen, tl.exp2(score - higher), 0.0)
        fade = tl.exp2(top - higher)
        total = total * fade + weight
        if SCALED:
            weight = weight * tl.load(value_scales + entry)
        heard = heard * fade + weight[:, None] * value
        top = higher
    answer = tl.sum(heard, 0) / tl.sum(total, 0)
    tl.store(out + place, answer.to(out.dtype.element_ty))


_kernel: Any = triton.jit(_attend)


def attend(
    ring: Ring, layer: int, query: Tensor, places: Places, block: int = BLOCK, warps: int = WARPS
) -> Tensor:
    """Attention of ``query`` [rows, heads, size] over each row's ring, of the same size."""
    rows, heads, size = query.shape
    query = query.contiguous()
    out = torch.empty_like(query)
    keys, values = ring.entries[layer]
    key_scales, value_scales = (keys, values) if ring.scales is None else ring.scales[layer]
    _kernel[(rows, heads)](
        query,
        out,
        keys,
        values,
        key_scales,
        value_scales,
        ring.table,
        places.slot,
        places.position,
        places.window,
        size**-0.5 * LOG2_E,
        ring.per_slot,
        HEADS=heads,
        SIZE=size,
        PAGE=ring.page,
        BLOCK=min(block, ring.page),
        SCALED=ring.scales is not None,
        num_warps=warps,
    )
    return out
