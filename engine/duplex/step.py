"""One step of the language models in tokens: both rules, for every slot at once.

A slot has a position, the next one that the temporal transformer reads, and a short ring of token
columns around it. A step reads the column at the position, predicts the next one and hands out
the newest frame whose rows are all there. Rows lag by their ``delays``; before a row's first token
the model reads its start token, so the very first frame given is heard by nobody, as in both
references.

The two rules differ in one number, ``lead``: where the caller's codes of this tick are written.
Moshi reads them at once (0). PersonaPlex writes them into the column that is being predicted (1):
the depth transformer is told them, and the temporal transformer reads them 80 ms later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from engine.duplex.depth import Depth
from engine.duplex.sample import Sampling
from engine.duplex.shapes import Shape
from engine.duplex.temporal import Temporal

TEXT, AUDIO = 0, 1


@dataclass(frozen=True, slots=True)
class Chosen:
    """How the slots choose text and audio."""

    temperature: Tensor
    """[slots, 2]: text, audio."""
    top_k: Tensor
    """[slots, 2]."""
    seed: Tensor
    """[slots]."""


class Said(NamedTuple):
    """What came out: ``tokens`` [slots, predicted rows], where ``due``; ``sane``: of numbers."""

    tokens: Tensor
    due: Tensor
    sane: Tensor


class Stepper:
    """The language model's state and step for up to ``slots`` callers."""

    def __init__(
        self, shape: Shape, temporal: Temporal, depth: Depth, slots: int, lead: int
    ) -> None:
        device = temporal.ring.table.device
        self._temporal = temporal
        self._depth = depth
        self._lead = lead
        self.said = 1 + shape.dep_q
        """Token rows that are predicted."""
        self._caller = 1 + shape.n_q // 2
        self._lag = max(shape.delays)
        self.span = self._lag + 3
        """Columns of the token ring."""
        self.delays = torch.tensor(shape.delays, device=device)
        self.start_tokens = torch.tensor(
            [shape.text_card, *[shape.card] * shape.n_q], device=device
        )
        self.position = torch.zeros(slots, dtype=torch.long, device=device)
        self.tokens = torch.zeros(slots, shape.rows, self.span, dtype=torch.long, device=device)
        self.given = torch.zeros(slots, shape.rows, self.span, dtype=torch.bool, device=device)
        self._slot = torch.arange(slots, device=device)

    def start(self, reset: Tensor, position: Tensor, columns: Tensor, given: Tensor) -> None:
        """Sets the slots that ``reset`` names, [slots], to where they are to start."""
        for state, to in (
            (self.position, position),
            (self.tokens, columns),
            (self.given, given),
        ):
            old = state[: len(reset)]
            old.copy_(torch.where(reset.view(-1, *[1] * (old.dim() - 1)), to, old))

    def __call__(self, codes: Tensor, run: Tensor, chosen: Chosen) -> Said:
        """Steps the first slots, as many as ``run`` has.

        Args:
            codes: the caller's of this tick, [slots, caller's rows].
            run: [slots]; the others stay as they are.
        """
        slots = len(run)
        position, tokens, given = self.position[:slots], self.tokens[:slots], self.given[:slots]
        self._hear(tokens, given, position, codes, run)

        at = (position % self.span)[:, None, None].expand(-1, tokens.shape[1], 1)
        column = tokens.gather(2, at)[..., 0]
        column = torch.where(position[:, None] <= self.delays, self.start_tokens, column)
        places = self._temporal.ring.places(self._slot[:slots], position, run)
        hidden, logits = self._temporal(self._temporal.embed(column), places)
        given.scatter_(2, at, given.gather(2, at) & ~run[:, None, None])

        at = ((position + 1) % self.span)[:, None, None].expand(-1, self.said, 1)
        value = tokens.gather(2, at)[..., 0]
        fixed = given.gather(2, at)[..., 0]
        predicted = self._predict(hidden, logits, value, fixed, position, chosen)
        tokens.scatter_(2, at, torch.where(run[:, None], predicted, value)[..., None])

        at = (position[:, None] + 1 - self._lag + self.delays[: self.said]) % self.span
        due = run & (position + 1 > self._lag)
        position += run
        return Said(tokens.gather(2, at[..., None])[..., 0], due, hidden.isfinite().all(-1))

    def _hear(
        self, tokens: Tensor, given: Tensor, position: Tensor, codes: Tensor, run: Tensor
    ) -> None:
        rows = slice(self._caller, None)
        at = ((position[:, None] + self._lead + self.delays[rows]) % self.span)[..., None]
        heard, known = tokens[:, rows], given[:, rows]
        heard.scatter_(
            2, at, torch.where(run[:, None, None], codes[..., None], heard.gather(2, at))
        )
        known.scatter_(2, at, known.gather(2, at) | run[:, None, None])

    def _predict(
        self,
        hidden: Tensor,
        logits: Tensor,
        value: Tensor,
        fixed: Tensor,
        position: Tensor,
        chosen: Chosen,
    ) -> Tensor:
        by = [
            Sampling(chosen.temperature[:, kind], chosen.top_k[:, kind], chosen.seed, position)
            for kind in (TEXT, AUDIO)
        ]
        text = torch.where(fixed[:, 0], value[:, 0], by[TEXT](logits, 0))
        audio = self._depth(hidden, text, value[:, 1:], fixed[:, 1:], by[AUDIO])
        return torch.cat([text[:, None], audio], 1)
