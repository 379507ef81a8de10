"""Rings on a GPU: one kernel stores, one attends, both on the entries as they are stored.

``attend``: one program answers one row and head. It walks the pages that its slot has written, a
block of entries at a time, with the softmax kept as running maximum and sum; 8-bit entries are
widened in registers, so a tick moves each stored byte once and nothing else. That is what bounds
it: a query is a single vector, there is no reuse for tensor cores to win. Sums stay spread over
the block's rows until the end, so the loop needs no reduction but the scores' own.

``store``: one program rotates the query and key of one row and head and stores key and value. In
plain PyTorch that takes a dozen passes over small tensors in every layer, a third of the tick.

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

BLOCK, WARPS, STAGES = 32, 1, 3
"""Entries per step, warps per program and steps loaded ahead: the fastest of 40 on an H200."""

LOG2_E = 1.4426950408889634
LARGEST = tl.constexpr(3.0e38)
"""What is larger is stored as 0, and so is what is no number."""


def _widened(x, SCALED: tl.constexpr):  # type: ignore[no-untyped-def,unused-ignore]
    """An entry as a float.

    An 8-bit one becomes the last bits of a float whose unit is 1: arithmetic, where a conversion
    would wait for a slower unit (a fifth of the kernel's time).
    """
    if SCALED:
        return ((x.to(tl.int32) & 0xFF) ^ 0x4B000080).to(tl.float32, bitcast=True) - 8388736.0
    return x.to(tl.float32)


def _rounded(x):  # type: ignore[no-untyped-def,unused-ignore]
    """To whole numbers, half to even, as PyTorch rounds; for what is small."""
    return (x + 12582912.0) - 12582912.0


_wide: Any = triton.jit(_widened)
_round: Any = triton.jit(_rounded)


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
    STAGES: tl.constexpr,
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
    for first in tl.range(0, written, BLOCK, num_stages=STAGES):
        page = tl.load(pages + first // PAGE).to(tl.int64)
        age = newest - (first + lane)
        age = tl.where(age < 0, age + capacity, age)
        seen = (age < window) & (age <= position)
        entry = (page * HEADS + head) * PAGE + first % PAGE + lane
        where = entry[:, None] * SIZE + channel[None, :]
        key = tl.load(keys + where)
        value = tl.load(values + where)
        if SCALED:
            key_scale = tl.load(key_scales + entry)
            value_scale = tl.load(value_scales + entry)
        score = tl.sum(_wide(key, SCALED) * asked[None, :], 1)
        if SCALED:
            score = score * key_scale
        score = tl.where(seen, score, -1.0e30)
        higher = tl.maximum(top, tl.max(score, 0))
        weight = tl.where(seen, tl.exp2(score - higher), 0.0)
        if higher > top:
            fade = tl.exp2(top - higher)
            total = total * fade
            heard = heard * fade
        total += weight
        if SCALED:
            weight = weight * value_scale
        heard += weight[:, None] * _wide(value, SCALED)
        top = higher
    answer = tl.sum(heard, 0) / tl.sum(total, 0)
    tl.store(out + place, answer.to(out.dtype.element_ty))


def _store(  # type: ignore[no-untyped-def,unused-ignore]
    triple,
    turn,
    query,
    keys,
    values,
    key_scales,
    value_scales,
    pages,
    entries,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    PAGE: tl.constexpr,
    SCALED: tl.constexpr,
):
    row = tl.program_id(0)
    head = tl.program_id(1)
    pair = tl.arange(0, SIZE // 2)
    channel = tl.arange(0, SIZE)
    cos = tl.load(turn + (row * (SIZE // 2) + pair) * 2)
    sin = tl.load(turn + (row * (SIZE // 2) + pair) * 2 + 1)
    entry = (tl.load(pages + row) * HEADS + head) * PAGE + tl.load(entries + row)
    answer = query + (row * HEADS + head) * SIZE + 2 * pair
    given = triple + (row * 3 * HEADS + head) * SIZE

    even = tl.load(given + 2 * pair).to(tl.float32)
    odd = tl.load(given + 2 * pair + 1).to(tl.float32)
    tl.store(answer, (even * cos - odd * sin).to(query.dtype.element_ty))
    tl.store(answer + 1, (even * sin + odd * cos).to(query.dtype.element_ty))

    given += HEADS * SIZE
    even = tl.load(given + 2 * pair).to(tl.float32)
    odd = tl.load(given + 2 * pair + 1).to(tl.float32)
    first = (even * cos - odd * sin).to(query.dtype.element_ty).to(tl.float32)
    second = (even * sin + odd * cos).to(query.dtype.element_ty).to(tl.float32)
    first = tl.where(tl.abs(first) < LARGEST, first, 0.0)
    second = tl.where(tl.abs(second) < LARGEST, second, 0.0)
    value = tl.load(given + HEADS * SIZE + channel).to(tl.float32)
    value = tl.where(tl.abs(value) < LARGEST, value, 0.0)
    if SCALED:
        largest = tl.maximum(tl.max(tl.abs(first), 0), tl.max(tl.abs(second), 0))
        scale = tl.maximum(largest / 127, 1.0e-12)
        tl.store(key_scales + entry, scale)
        first = _round(first / scale)
        second = _round(second / scale)
        scale = tl.maximum(tl.max(tl.abs(value), 0) / 127, 1.0e-12)
        tl.store(value_scales + entry, scale)
        value = _round(value / scale)
    key = keys + entry * SIZE + 2 * pair
    tl.store(key, first.to(keys.dtype.element_ty))
    tl.store(key + 1, second.to(keys.dtype.element_ty))
    tl.store(values + entry * SIZE + channel, value.to(values.dtype.element_ty))


_attend_on_device: Any = triton.jit(_attend)
_store_on_device: Any = triton.jit(_store)


def attend(ring: Ring, layer: int, query: Tensor, places: Places) -> Tensor:
    """Attention of ``query`` [rows, heads, size] over each row's ring, of the same size."""
    rows, heads, size = query.shape
    out = torch.empty_like(query)
    _attend_on_device[(rows, heads)](
        query,
        out,
        *_stored(ring, layer),
        ring.table,
        places.slot,
        places.position,
        places.window,
        size**-0.5 * LOG2_E,
        ring.per_slot,
        HEADS=heads,
        SIZE=size,
        PAGE=ring.page,
        BLOCK=min(BLOCK, ring.page),
        SCALED=ring.scales is not None,
        STAGES=STAGES,
        num_warps=WARPS,
    )
    return out


def store(ring: Ring, layer: int, triple: Tensor, turn: Tensor, places: Places) -> Tensor:
    """Stores the rotated keys and the values of ``triple`` [rows, 3, heads, size].

    Returns the rotated queries, [rows, heads, size].
    """
    rows, _, heads, size = triple.shape
    query = triple.new_empty(rows, heads, size)
    _store_on_device[(rows, heads)](
        triple,
        torch.view_as_real(turn),
        query,
        *_stored(ring, layer),
        places.page,
        places.entry,
        HEADS=heads,
        SIZE=size,
        PAGE=ring.page,
        SCALED=ring.scales is not None,
        num_warps=1,
    )
    return query


def _stored(ring: Ring, layer: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Keys, values and their scales; without scales the entries stand in, unread."""
    keys, values = ring.entries[layer]
    key_scales, value_scales = (keys, values) if ring.scales is None else ring.scales[layer]
    return keys, values, key_scales, value_scales
