"""A model to be served, and what the sessions must know of it."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import torch

from engine.contract import EngineError, EngineInfo
from engine.duplex.build import Built, Plan, build
from engine.duplex.facts import Facts
from engine.duplex.load import Checkpoint, folder, read
from engine.duplex.options import Choices, Options
from engine.duplex.prompt import SILENT_FRAMES, Primer, Prompt, Voice
from engine.duplex.slots import Slots
from engine.duplex.text import Tokenizer

ROLE = 1024
"""Tokens of a role at most: it is read, 32 a tick, before the first word."""
AHEAD = 10.0
"""Seconds that a reply may be ahead of its playout."""


class RoleTooLong(ValueError):
    """A role has more tokens than are read."""


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
    tick_ms = options.tick_ms or 1000 * frame / rate
    tokenizer = Tokenizer(checkpoint.tokenizer)
    voices: dict[str, Voice | None] = {**checkpoint.voices} or {"default": None}
    return Facts(
        info=EngineInfo(
            name="duplex",
            input_rate=rate,
            output_rate=rate,
            replies="by_itself",
            tick=frame,
            real_time=True,
            voices=tuple(voices),
            models=("personaplex" if checkpoint.lead else "moshi",),
            capacity=min(options.slots, built.pages.unpromised // built.pages.needed(positions)),
            longest_session=options.longest_session,
            ahead=AHEAD,
        ),
        period=round(tick_ms * 1e6),
        audible=options.audible,
        silence_ms=options.silence_ms,
        says=lambda: tokenizer.speaker().says,
        choices=partial(_choices, options),
        prompt=partial(_prompt, tokenizer, built.prompt, voices),
        takes_role=bool(checkpoint.lead),
        positions=positions,
        frames=frames,
    )


def _prompt(
    tokenizer: Tokenizer, primer: Primer, voices: dict[str, Voice | None], voice: str, role: str
) -> Prompt | None:
    tokens = tokenizer.role(role) if primer.lead else []
    if len(tokens) > ROLE:
        raise RoleTooLong(f"expected at most {ROLE} tokens, got {len(tokens)}")
    return primer(tokens, voices[voice])


def _choices(options: Options) -> Choices:
    return Choices(
        temperature=options.temperature,
        text_temperature=options.text_temperature,
        seed=random.getrandbits(31) if options.seed is None else options.seed,
    )


def _warm(slots: Slots, facts: Facts) -> None:
    """Serves a caller for a moment: what is slow once is slow now."""
    slot = slots.join()
    assert slot is not None
    slots.begin(slot, Choices(), facts.prompt(facts.info.voices[0], ""))
    everyone = np.ones(len(slots.pcm), np.bool_)
    while not slots.primed[slot]:
        slots.tick(~everyone)
    for _ in range(3):
        slots.tick(everyone)
    slots.leave(slot)
