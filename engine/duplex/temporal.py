"""The temporal transformer: one step per frame over text and audio tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.duplex.ring import Places, Ring
from engine.duplex.shapes import Shape
from engine.duplex.transformer import Layer, Transformer, gated, rms_norm
from engine.duplex.weights import Weights


class Temporal:
    """The temporal transformer over a ring.

    The embedding tables stand one below the other, so that a frame's tokens are summed in one call.
    """

    def __init__(self, shape: Shape, weights: Weights, ring: Ring) -> None:
        tables = [weights.take("text_emb.weight", shape.text_card + 1, shape.dim)]
        tables += weights.steps(shape.n_q, "emb.{}.weight", shape.card + 1, shape.dim)
        self._tables = torch.cat(tables)
        first = [0, *(shape.text_card + 1 + i * (shape.card + 1) for i in range(shape.n_q))]
        self._first = torch.tensor(first, device=self._tables.device)
        self._text = weights.take("text_linear.weight", -1, shape.dim)
        self._norm = rms_norm(weights.below("out_norm"), shape.dim)
        below = weights.below("transformer.layers")
        layers = [_layer(shape, below.below(str(i))) for i in range(shape.num_layers)]
        self._transformer = Transformer(layers, ring, shape.num_heads, shape.max_period)
        self.ring = ring

    def embed(self, tokens: Tensor) -> Tensor:
        """The sum of the embeddings of ``tokens`` [rows, token rows]: [rows, dim]."""
        return F.embedding_bag(tokens + self._first, self._tables, mode="sum")

    def hear(self, embedded: Tensor, places: Places) -> Tensor:
        """Takes ``embedded`` [rows, dim] into the ring; the output before its norm."""
        return self._transformer(embedded, places)

    def __call__(self, embedded: Tensor, places: Places) -> tuple[Tensor, Tensor]:
        """What the depth transformer starts from, [rows, dim], and the text's logits, as floats."""
        hidden = self._norm(self.hear(embedded, places))
        return hidden, F.linear(hidden, self._text).float()


def _layer(shape: Shape, weights: Weights) -> Layer:
    feed = weights.below("gating")
    inward, outward = weights.below("self_attn").attention(shape.dim)[0]
    return Layer(
        norm=rms_norm(weights.below("norm1"), shape.dim),
        inward=inward,
        outward=outward,
        feed_norm=rms_norm(weights.below("norm2"), shape.dim),
        feed=gated(
            feed.take("linear_in.weight", 2 * shape.hidden, shape.dim),
            feed.take("linear_out.weight", shape.dim, shape.hidden),
        ),
    )
