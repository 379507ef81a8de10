"""Choosing tokens, for every slot by its own temperature, top-k and seed.

The choice is the largest of logits plus Gumbel noise, which draws from their softmax without ever
asking the device for a number. The noise is a hash of (seed, frame, row, token), not of a
generator's state: a caller's tokens do not depend on who else is in the batch, in which slot it
sits or how the batch is cut, and a recording can be made again from its seed.
"""

from __future__ import annotations

import torch
from torch import Tensor

TOP_K = 250
"""The most tokens a slot may choose among."""

_WORD = 0xFFFFFFFF


class Sampling:
    """How the slots choose: [slots] each.

    Args:
        temperature: 0 takes the likeliest.
        top_k: at least 1; more than ``TOP_K`` is that many.
        seed: any.
        frame: counts a slot's frames.
    """

    def __init__(self, temperature: Tensor, top_k: Tensor, seed: Tensor, frame: Tensor) -> None:
        self._cold = (temperature <= 0)[:, None]
        self._temperature = temperature.clamp_min(1e-6)[:, None]
        self._top_k = top_k[:, None]
        self._key = _mixed(_mixed(seed & _WORD) ^ _mixed(frame + 0x9E37))

    def __call__(self, logits: Tensor, row: int) -> Tensor:
        """A token for each slot from ``logits`` [slots, card] of a token row."""
        best, token = logits.topk(min(TOP_K, logits.shape[-1]), -1)
        rank = torch.arange(best.shape[-1], device=best.device)
        noise = _mixed(_mixed(self._key + row)[:, None] ^ _mixed(token + 1))
        uniform = ((noise >> 9).float() + 0.5) * 2.0**-23
        score = best / self._temperature - torch.log(-torch.log(uniform))
        score = torch.where(self._cold, best, score)
        score = score.masked_fill((rank >= self._top_k) & (rank > 0), -torch.inf)
        return token.gather(-1, score.argmax(-1, keepdim=True))[:, 0]


def _mixed(x: Tensor) -> Tensor:
    """MurmurHash3's finaliser: every bit of a 32-bit word depends on every bit of ``x``."""
    x = x & _WORD
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & _WORD
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & _WORD
    return x ^ (x >> 16)
