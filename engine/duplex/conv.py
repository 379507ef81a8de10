"""Convolutions over a stream that arrives a frame at a time, for every slot at once.

What a convolution needs of the past is a few samples of each slot, kept in static tensors. A slot
that does not run keeps its own; one that is ``fresh`` (at its first frame) starts from silence
whatever its tensors hold, so a reused slot needs no clearing.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.duplex.weights import Weights


class Turn(NamedTuple):
    """Which slots run, and which of them are at their first frame: [slots, 1, 1] each."""

    run: Tensor
    fresh: Tensor


class Conv:
    """A causal convolution; ``replicate``: its past before the first frame is that frame's first
    sample instead of silence.
    """

    def __init__(
        self, weights: Weights, slots: int, *, stride: int = 1, replicate: bool = False
    ) -> None:
        self._weight = weights.take("weight", -1, -1, -1)
        self._bias = weights.take("bias", -1) if "bias" in weights else None
        self._stride = stride
        self._replicate = replicate
        _, channels, kernel = self._weight.shape
        self._past = self._weight.new_zeros(slots, channels, kernel - stride)

    def __call__(self, x: Tensor, turn: Turn) -> Tensor:
        """The next output for ``x`` [slots, channels, samples], a multiple of the stride."""
        length = self._past.shape[-1]
        if length:
            past = self._past[: len(x)]
            before = x[..., :1] if self._replicate else x.new_zeros(())
            x = torch.cat([torch.where(turn.fresh, before, past), x], -1)
            past.copy_(torch.where(turn.run, x[..., -length:], past))
        return F.conv1d(x, self._weight, self._bias, self._stride)


class ConvTranspose:
    """A causal transposed convolution, whose output reaches into the next frame."""

    def __init__(self, weights: Weights, slots: int, *, stride: int, groups: int = 1) -> None:
        self._weight = weights.take("weight", -1, -1, -1)
        self._bias = weights.take("bias", -1)[:, None] if "bias" in weights else None
        self._stride = stride
        self._groups = groups
        _, out, kernel = self._weight.shape
        self._partial = self._weight.new_zeros(slots, out * groups, kernel - stride)

    def __call__(self, x: Tensor, turn: Turn) -> Tensor:
        """The next output for ``x`` [slots, channels, samples]."""
        y = F.conv_transpose1d(x, self._weight, None, self._stride, groups=self._groups)
        length = self._partial.shape[-1]
        partial = self._partial[: len(x)]
        y[..., :length] += torch.where(turn.fresh, 0, partial)
        partial.copy_(torch.where(turn.run, y[..., -length:], partial))
        y = y[..., :-length]
        return y if self._bias is None else y + self._bias
