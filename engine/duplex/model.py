"""A model to be served, and what the sessions must know of it.

The two are kept apart, so that a model that broke can be let go of whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from engine.contract import EngineError
from engine.duplex.build import Built, Plan, build
from engine.duplex.load import Checkpoint, folder, read
from engine.duplex.options import Choices, Options
from engine.duplex.prompt import SILENT_FRAMES, Primer, Prompt, Voice
from engine.duplex.slots import Slots
from engine.duplex.text import Speaker, Tokenizer

ROLE = 1024
"""Tokens of a role at most: it is read, 32 a tick, before the first word."""


class RoleTooLong(ValueError):
    """A role has more tokens than are read."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a model without it; ``frame`` in samples at ``rate`` Hz."""

    name: str
    rate: int
    frame: int
    capacity: int
    """Callers at once, by slots and by pages."""
    positions: int | None
    """What a call reads and runs at most, and of these its frames; None: any number."""
    frames: int | None
    voices: dict[str, Voice | None]
    tokenizer: Tokenizer
    primer: Primer

    def prompt(self, voice: str, role: str) -> Prompt | None:
        """What a caller's slot reads first; None where the model has no prompt.

        Raises:
            RoleTooLong: the role is.
        """
        tokens = self.tokenizer.role(role) if self.primer.lead else []
        if len(tokens) > ROLE:
            raise RoleTooLong(f"expected at most {ROLE} tokens, got {len(tokens)}")
        return self.primer(tokens, self.voices[voice])

    def speaker(self) -> Speaker:
        """Turns one caller's text tokens into words."""
        return self.tokenizer.speaker()


def load(options: Options) -> tuple[Slots, Facts]:
    """Reads, builds and warms up a model. Blocks, for as long as its files take to read.

    Raises:
        EngineError: it cannot be had, or does not fit.
    """
    cuda = options.device.startswith("cuda")
    if cuda and not torch.cuda.is_available():
        raise EngineError("duplex: device: expected one that PyTorch can use, got cuda")
    source = folder(options.model, options.revision)
    try:
        if cuda:
            torch.cuda.empty_cache()
        checkpoint = read(source, options.device, getattr(torch, options.dtype))
        plan = Plan(
            slots=options.slots,
            window=options.window,
            entries=options.entries,
            pages=options.pages,
            buckets=options.buckets,
        )
        built = build(checkpoint, plan)
    except torch.OutOfMemoryError:
        raise EngineError("duplex: it does not fit: take fewer slots, window or pages") from None
    facts = _facts(checkpoint, built, options)
    _warm(built.slots, facts)
    return built.slots, facts


def _facts(checkpoint: Checkpoint, built: Built, options: Options) -> Facts:
    rate, frame = checkpoint.mimi_shape.sample_rate, checkpoint.mimi_shape.frame
    frames = positions = None
    if options.longest_session is not None:
        frames = positions = max(1, int(options.longest_session * rate / frame))
        if checkpoint.lead:
            voice = max((voice.count + 1 for voice in checkpoint.voices.values()), default=0)
            positions += voice + ROLE + 2 * SILENT_FRAMES
    return Facts(
        name="personaplex" if checkpoint.lead else "moshi",
        rate=rate,
        frame=frame,
        capacity=min(options.slots, built.pages.unpromised // built.pages.needed(positions)),
        positions=positions,
        frames=frames,
        voices={**checkpoint.voices} or {"default": None},
        tokenizer=Tokenizer(checkpoint.tokenizer),
        primer=built.prompt,
    )


def _warm(slots: Slots, facts: Facts) -> None:
    """Serves a caller for a moment: what is slow once is slow now."""
    slot = slots.join()
    assert slot is not None
    slots.begin(slot, Choices(), facts.prompt(next(iter(facts.voices)), ""))
    everyone = np.ones(len(slots.pcm), np.bool_)
    while not slots.primed(slot):
        slots.tick(~everyone)
    for _ in range(3):
        slots.tick(everyone)
    slots.leave(slot)
