"""A causal transformer over rings, for the temporal model and for Mimi's two.

Rows are flat: a row is one position of one slot, and how many rows of which slots come together
is the caller's choice. One step of every slot, two codec steps of every slot and a piece of a
newcomer's prompt are the same call, and give the same result in any grouping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from engine.duplex.ring import Places, Ring, rotation
from engine.duplex.weights import Weights

Function = Callable[[Tensor], Tensor]


def rms_norm(weights: Weights, dim: int) -> Function:
    """The norm of the language models: root mean square, with a gain."""
    alpha = weights.take("alpha", 1, 1, dim).view(dim)
    return lambda x: F.rms_norm(x, (dim,), alpha, 1e-8)


def gated(inward: Tensor, outward: Tensor) -> Function:
    """A feed-forward with a SiLU gate, its gate's weights first."""

    def feed(x: Tensor) -> Tensor:
        gate, value = F.linear(x, inward).chunk(2, -1)
        return F.linear(F.silu(gate) * value, outward)

    return feed


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer; ``scale``: what its two updates are multiplied by, channel by channel."""

    norm: Function
    inward: Tensor
    outward: Tensor
    feed_norm: Function
    feed: Function
    scale: tuple[Tensor, Tensor] | None = None


class Transformer:
    """Layers over a ring."""

    def __init__(self, layers: Sequence[Layer], ring: Ring, heads: int, period: float) -> None:
        self.ring = ring
        self._layers = layers
        self._heads = heads
        self._period = period

    def __call__(self, x: Tensor, places: Places) -> Tensor:
        """The output for rows ``x`` [rows, dim], whose keys and values it stores in the ring."""
        rows, dim = x.shape
        size = dim // self._heads
        turn = rotation(places.position, size, self._period)
        for index, layer in enumerate(self._layers):
            triple = F.linear(layer.norm(x), layer.inward).view(rows, 3, self._heads, size)
            query = self.ring.store(index, triple, turn, places)
            heard = self.ring.attend(index, query, places)
            update = F.linear(heard.flatten(1), layer.outward)
            x = x + (update if layer.scale is None else update * layer.scale[0])
            update = layer.feed(layer.feed_norm(x))
            x = x + (update if layer.scale is None else update * layer.scale[1])
        return x
