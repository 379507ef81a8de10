"""The kernels on this machine's GPU: their answers against their twins', and their time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from engine.duplex import kernel
from engine.duplex.options import Entries
from engine.duplex.ring import Ring, rotation

BANDWIDTH = 4.8e12
"""Bytes a second by the H200's datasheet, for the floors."""

HEADS, SIZE = 32, 128
"""Of the published models."""

Row = dict[str, Any]


def kernel_checks(window: int) -> Row:
    """Relative L2 distance of the kernel's answers from its twin's, and of 8 bits from 32."""
    report: Row = {}
    exact: Tensor | None = None
    kinds: tuple[Entries, ...] = ("float32", "bfloat16", "int8")
    for entries in kinds:
        ring, query = full_ring(entries, slots=8, window=window)
        places = ring.places(
            torch.arange(8, device="cuda"),
            torch.tensor([0, 5, 63, 64, 700, window - 1, window, 9999], device="cuda"),
            torch.ones(8, dtype=torch.bool, device="cuda"),
        )
        twin = ring.attend_plainly(0, query, places)
        answer = kernel.attend(ring, 0, query, places)
        report[f"{entries}_from_twin"] = distance(answer, twin)
        exact = twin if exact is None else exact
        report[f"{entries}_from_float32"] = distance(answer, exact)
        report[f"{entries}_stored_from_twin"] = store_check(entries)
    return report


def distance(answer: Tensor, expected: Tensor) -> float:
    """Relative L2."""
    return float((answer - expected).norm() / expected.norm())


def full_ring(entries: Entries, slots: int, window: int) -> tuple[Ring, Tensor]:
    """A ring of one layer, written throughout with the same numbers, and queries."""
    generator = torch.Generator("cuda").manual_seed(1)
    ring = Ring(
        layers=1,
        heads=HEADS,
        size=SIZE,
        slots=slots,
        window=window,
        chunk=32,
        entries=entries,
        device="cuda",
    )
    every = torch.arange(slots, device="cuda")
    for position in range(ring.capacity):
        pairs = torch.randn(slots, 2, HEADS, SIZE, device="cuda", generator=generator)
        ring.write(0, pairs, ring.places(every, torch.full_like(every, position), every >= 0))
    return ring, torch.randn(slots, HEADS, SIZE, device="cuda", generator=generator) * 2


def store_check(entries: Entries) -> float:
    """Relative L2 distance of what the kernel stores from what its twin stores."""
    stored = []
    for store in (kernel.store, Ring.store_plainly):
        generator = torch.Generator("cuda").manual_seed(2)
        ring, _ = full_ring(entries, slots=8, window=100)
        triple = torch.randn(8, 3, HEADS, SIZE, device="cuda", generator=generator)
        every = torch.arange(8, device="cuda")
        places = ring.places(every, 1000 * every + 3, every >= 0)
        query = store(ring, 0, triple, rotation(places.position, SIZE, 10000.0), places)
        pairs = ring.entries.float()
        if ring.scales is not None:
            pairs *= ring.scales[..., None]
        stored.append(torch.cat([pairs.flatten(), query.flatten()]))
    return distance(*stored)


def kernel_times(slots: int, window: int) -> Row:
    """Microseconds of the kernels at one layer of full 8-bit rings, and the floor of reading."""
    ring, query = full_ring("int8", slots, window)
    query = query.bfloat16()
    every = torch.arange(slots, device="cuda")
    places = ring.places(every, torch.full_like(every, 9999), every >= 0)
    turn = rotation(places.position, SIZE, 10000.0)
    triple = torch.randn(slots, 3, HEADS, SIZE, device="cuda", dtype=torch.bfloat16)
    return {
        "callers": slots,
        "attend_floor": slots * window * HEADS * (SIZE + 4) * 2 / BANDWIDTH * 1e6,
        "attend": timed(partial(kernel.attend, ring, 0, query, places), 10) * 1e3,
        "store": timed(partial(kernel.store, ring, 0, triple, turn, places), 10) * 1e3,
    }


def timed(function: Callable[[], object], times: int) -> float:
    """Milliseconds of one call, on the device's clock."""
    for _ in range(3):
        function()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(times):
        function()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / times
