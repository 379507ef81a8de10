"""Tokens are drawn as the softmax says, whoever else draws beside."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.duplex.sample import TOP_K, Sampling


def sampling(temperature: float, top_k: int, seed: Tensor, frame: Tensor) -> Sampling:
    many = torch.full(seed.shape, temperature)
    return Sampling(many, torch.full(seed.shape, top_k), seed, frame)


def test_cold_is_the_likeliest() -> None:
    logits = torch.randn(50, 1000, generator=torch.Generator().manual_seed(1))
    by = sampling(0.0, 250, torch.arange(50), torch.zeros(50, dtype=torch.long))
    assert torch.equal(by(logits, 3), logits.argmax(-1))


def test_one_of_one_is_the_likeliest_however_hot() -> None:
    logits = torch.randn(50, 1000, generator=torch.Generator().manual_seed(1))
    by = sampling(9.0, 1, torch.arange(50), torch.zeros(50, dtype=torch.long))
    assert torch.equal(by(logits, 3), logits.argmax(-1))


def test_tokens_come_as_often_as_the_softmax_of_the_best_says() -> None:
    draws, temperature, top_k = 40_000, 0.7, 6
    logits = torch.randn(12, generator=torch.Generator().manual_seed(2))
    best = logits.topk(top_k)
    expected = torch.zeros(12).index_put((best.indices,), (best.values / temperature).softmax(-1))
    frame = torch.arange(draws)
    by = sampling(temperature, top_k, torch.full((draws,), 7), frame)
    counted = by(logits.expand(draws, -1), 1).bincount(minlength=12) / draws
    assert (counted[expected == 0] == 0).all()
    assert (counted - expected).abs().max() < 0.012


def test_seeds_frames_and_rows_each_draw_anew() -> None:
    logits = torch.zeros(200, 2000)
    seeds, frames = torch.arange(200), torch.zeros(200, dtype=torch.long)
    draws = {
        "seeds": sampling(1.0, TOP_K, seeds, frames)(logits, 0),
        "frames": sampling(1.0, TOP_K, frames, seeds)(logits, 0),
        "rows": torch.stack(
            [sampling(1.0, TOP_K, frames[:1], frames[:1])(logits[:1], r)[0] for r in range(200)]
        ),
    }
    for name, tokens in draws.items():
        assert len(tokens.unique()) > 80, name


def test_a_caller_draws_the_same_in_any_slot_of_any_batch() -> None:
    logits = torch.randn(9, 300, generator=torch.Generator().manual_seed(3))
    seed, frame = torch.arange(9) * 11, torch.arange(9)
    together = sampling(0.8, 25, seed, frame)(logits, 2)
    turned = sampling(0.8, 25, seed.flip(0), frame.flip(0))(logits.flip(0), 2)
    alone = sampling(0.8, 25, seed[4:5], frame[4:5])(logits[4:5], 2)
    assert torch.equal(together, turned.flip(0)) and together[4] == alone[0]
