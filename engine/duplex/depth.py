"""The depth transformer: within one frame, one small step per audio row.

Each step has weights of its own and attends to the steps before it in the same frame, so its
memory is a few entries that every frame overwrites. A step whose token is given is told that
instead of what it would have said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.duplex.shapes import Shape
from engine.duplex.transformer import Function, gated, rms_norm
from engine.duplex.weights import Weights

Choose = Callable[[Tensor, int], Tensor]
"""A token for each slot from logits [slots, card] of a token row."""


@dataclass(frozen=True, slots=True)
class _Layer:
    norm: Function
    attention: list[tuple[Tensor, Tensor]]
    feed_norm: Function
    feed: list[Function]


class Depth:
    """The depth transformer for up to ``slots`` callers."""

    def __init__(self, shape: Shape, weights: Weights, slots: int) -> None:
        dim, steps = shape.depformer_dim, shape.dep_q
        self._dim, self._steps, self._heads = dim, steps, shape.depformer_num_heads
        self._inward = torch.cat(weights.steps(steps, "depformer_in.{}.weight", dim, shape.dim))
        text = weights.take("depformer_text_emb.weight", shape.text_card + 1, dim)
        tables = weights.steps(steps - 1, "depformer_emb.{}.weight", shape.card + 1, dim)
        self._tables = [text, *tables]
        self._outward = weights.steps(steps, "linears.{}.weight", shape.card, dim)
        below = weights.below("depformer.layers")
        self._layers = [
            _layer(shape, below.below(str(i))) for i in range(shape.depformer_num_layers)
        ]
        self._memory = text.new_zeros(
            len(self._layers), 2, slots, steps, self._heads, dim // self._heads
        )

    def __call__(
        self, hidden: Tensor, text: Tensor, value: Tensor, given: Tensor, choose: Choose
    ) -> Tensor:
        """The tokens of the audio rows, [slots, steps].

        Args:
            hidden: from the temporal transformer, [slots, its dim].
            text: this frame's text token, [slots].
            value: tokens that are given, [slots, steps], where ``given`` says so.
            choose: picks a token.
        """
        slots = len(hidden)
        start = F.linear(hidden, self._inward).view(slots, self._steps, self._dim)
        token, tokens = text, []
        for step in range(self._steps):
            x = start[:, step] + F.embedding(token, self._tables[step])
            for layer, memory in zip(self._layers, self._memory, strict=True):
                x = self._advance(x, layer, memory[:, :slots], step)
            logits = F.linear(x, self._outward[step]).float()
            token = torch.where(given[:, step], value[:, step], choose(logits, 1 + step))
            tokens.append(token)
        return torch.stack(tokens, 1)

    def _advance(self, x: Tensor, layer: _Layer, memory: Tensor, step: int) -> Tensor:
        inward, outward = layer.attention[step]
        triple = F.linear(layer.norm(x), inward).view(len(x), 3, self._heads, -1)
        memory[:, :, step] = triple[:, 1:].transpose(0, 1)
        keys, values = memory[:, :, : step + 1].transpose(2, 3)
        heard = F.scaled_dot_product_attention(triple[:, 0, :, None], keys, values)
        x = x + F.linear(heard.flatten(1), outward)
        return x + layer.feed[step](layer.feed_norm(x))


def _layer(shape: Shape, weights: Weights) -> _Layer:
    dim, hidden, steps = shape.depformer_dim, shape.depth_hidden, shape.dep_q
    inward = weights.steps(steps, "gating.{}.linear_in.weight", 2 * hidden, dim)
    outward = weights.steps(steps, "gating.{}.linear_out.weight", dim, hidden)
    return _Layer(
        norm=rms_norm(weights.below("norm1"), dim),
        attention=weights.below("self_attn").attention(dim, steps),
        feed_norm=rms_norm(weights.below("norm2"), dim),
        feed=[gated(i, o) for i, o in zip(inward, outward, strict=True)],
    )
