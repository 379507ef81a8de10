"""A device with a model on it, from a checkpoint and what it shall hold.

Everything that a caller can ever need is allocated here; what does not fit fails now, not in a
call.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from engine.duplex.depth import Depth
from engine.duplex.device import Device
from engine.duplex.load import Checkpoint
from engine.duplex.mimi import Mimi
from engine.duplex.options import Entries
from engine.duplex.pages import Pages
from engine.duplex.prompt import Primer
from engine.duplex.ring import Ring, pages_of_a_ring
from engine.duplex.slots import Slots
from engine.duplex.step import Stepper
from engine.duplex.temporal import Temporal


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the device shall hold."""

    slots: int = 32
    """Callers at once."""
    window: int | None = None
    """Frames (80 ms) that the model looks back on; None: as many as it was made for."""
    entries: Entries = "int8"
    """How attention's memory is stored."""
    pages: int | None = None
    """Pages of that memory for all callers together; None: a whole ring for each."""
    page: int = 64
    """Frames of a page."""
    budget: int = 64
    """Frames of newcomers' prompts that are read in one tick, all together."""
    chunk: int = 32
    """And of any one of them."""
    buckets: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 192, 256)
    """Numbers of slots that a GPU keeps a graph for, as far as there are slots."""


@dataclass(frozen=True, slots=True)
class Built:
    """The device and its callers."""

    device: Device
    slots: Slots
    pages: Pages
    stepper: Stepper
    ring: Ring
    prompt: Primer


def build(checkpoint: Checkpoint, plan: Plan) -> Built:
    """Puts the model where the checkpoint's tensors are."""
    shape = checkpoint.shape
    where = checkpoint.embeddings.device
    window = min(plan.window or checkpoint.window, checkpoint.window)
    whole = pages_of_a_ring(window, plan.chunk, plan.page)
    pages = Pages(plan.pages or plan.slots * whole, plan.page, whole)
    ring = Ring(
        layers=shape.num_layers,
        heads=shape.num_heads,
        size=shape.dim // shape.num_heads,
        slots=plan.slots,
        window=window,
        chunk=plan.chunk,
        page=plan.page,
        pages=pages.free,
        entries=plan.entries,
        device=where,
    )
    temporal = Temporal(shape, checkpoint.weights, ring)
    depth = Depth(shape, checkpoint.weights, plan.slots)
    stepper = Stepper(shape, temporal, depth, plan.slots, checkpoint.lead)
    device = Device(
        mimi=Mimi(checkpoint.mimi_shape, checkpoint.mimi, plan.slots, shape.n_q // 2),
        temporal=temporal,
        stepper=stepper,
        voices=checkpoint.embeddings,
        frame=checkpoint.mimi_shape.frame,
        card=shape.card,
        slots=plan.slots,
        rows=plan.budget,
        buckets=[bucket for bucket in plan.buckets if bucket < plan.slots],
    )
    slots = Slots(device, pages, plan.page, plan.chunk)
    start = tuple(stepper.start_tokens.tolist())
    primer = Primer(checkpoint.lead, shape.delays, start, stepper.span)
    return Built(device, slots, pages, stepper, ring, primer)
