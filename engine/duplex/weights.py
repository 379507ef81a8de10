"""Tensors by their on-disk names.

The names of published checkpoints are the only names there are: a layer asks for what it needs
below its own prefix and says what size it must have. Moshi before 0.2 kept the attention of all
depth steps in one tensor (``in_proj_weight``), later ones keep one each (``in_projs.0.weight``);
both are read, as views, never copies.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.contract import EngineError


class Weights:
    """The tensors of a checkpoint below a prefix."""

    def __init__(self, tensors: Mapping[str, Tensor], prefix: str = "") -> None:
        self._tensors = tensors
        self._prefix = prefix

    def below(self, name: str) -> Weights:
        """The tensors below ``name``."""
        return Weights(self._tensors, f"{self._prefix}{name}.")

    def to(self, dtype: torch.dtype) -> Weights:
        """The same with floats of ``dtype``."""
        return Weights(
            {
                name: tensor.to(dtype) if tensor.is_floating_point() else tensor
                for name, tensor in self._tensors.items()
            },
            self._prefix,
        )

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._tensors

    def take(self, name: str, *size: int) -> Tensor:
        """The tensor ``name``; a size of -1 may be any.

        Raises:
            EngineError: it is missing or of another size.
        """
        full = self._prefix + name
        if full not in self._tensors:
            raise EngineError(f"weights: expected a tensor {full}, got none")
        tensor = self._tensors[full]
        found = tuple(tensor.shape)
        if len(found) != len(size) or any(
            want not in (-1, is_) for want, is_ in zip(size, found, strict=True)
        ):
            raise EngineError(f"weights: {full}: expected size {list(size)}, got {list(found)}")
        return tensor

    def steps(self, count: int, name: str, *size: int) -> list[Tensor]:
        """``count`` tensors ``name`` with {} for 0, 1, ...: those of the depth steps, say.

        A checkpoint made from one of half the steps may hold only the first half: the second then
        has the same weights, as in NVIDIA's loader.

        Raises:
            EngineError: neither all nor the first half are there.
        """
        found = 0
        while found < count and name.format(found) in self:
            found += 1
        half = (count + 1) // 2
        if found not in (count, half):
            full = self._prefix + name
            raise EngineError(f"weights: {full}: expected {count} or {half}, got {found}")
        tensors = [self.take(name.format(i), *size) for i in range(found)]
        return (tensors + tensors)[:count]

    def attention(self, dim: int, steps: int = 1) -> list[tuple[Tensor, Tensor]]:
        """The projections into queries, keys and values, and out of them, for each step."""
        joined = "in_proj_weight" if "in_proj_weight" in self else "in_proj.weight"
        if joined not in self:
            return list(
                zip(
                    self.steps(steps, "in_projs.{}.weight", 3 * dim, dim),
                    self.steps(steps, "out_projs.{}.weight", dim, dim),
                    strict=True,
                )
            )
        inward = self.take(joined, -1, dim).view(-1, 3 * dim, dim).unbind()
        outward = self.take("out_proj.weight", -1, dim).view(-1, dim, dim).unbind()
        pairs = list(zip(inward, outward, strict=True))
        if steps == 2 * len(pairs):
            return pairs + pairs
        if steps != len(pairs):
            raise EngineError(
                f"weights: {self._prefix}{joined}: expected {steps} steps or half as many, "
                f"got {len(pairs)}"
            )
        return pairs
