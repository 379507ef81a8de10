"""Token for token, sample for sample what moshi 0.2.13 makes of the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
from moshi.models.lm import LMGen
from moshi.models.loaders import get_mimi, get_moshi_lm
from moshi.utils.compile import no_compile
from safetensors.torch import save_file
from torch import Tensor

from engine.duplex import random_weights
from engine.duplex.mimi import Mimi
from engine.duplex.shapes import MimiShape
from engine.duplex.weights import Weights
from tests.duplex.tiny import MIMI, SHAPE, Talker, codes, config, mimi_config, newer_names, sound

FRAMES = 26

Solos: TypeAlias = dict[int, list[list[int] | None]]
"""Tokens of each frame, by the seed of what the caller says."""


def theirs(file: Path) -> Any:
    lm = get_moshi_lm(file, config(SHAPE), device="cpu", dtype=torch.float32)
    return LMGen(lm.eval(), use_sampling=False, support_out_of_sync=True, check=True)


def solo(gen: Any, seed: int, frames: int = FRAMES) -> list[list[int] | None]:
    with torch.no_grad(), no_compile(), gen.streaming(1):
        said = [
            gen.step(torch.tensor(frame)[None, :, None])[0, :, 0].tolist()
            for frame in codes(seed, frames, SHAPE.card)
        ]
    return [tokens if tokens[0] >= 0 else None for tokens in said]


@pytest.fixture(scope="module")
def tensors() -> dict[str, Tensor]:
    torch.manual_seed(2)
    return random_weights.language_model(SHAPE)


@pytest.fixture(scope="module")
def expected(tensors: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> Solos:
    """What each of five callers is told, alone."""
    path = tmp_path_factory.mktemp("moshi") / "model.safetensors"
    save_file(tensors, path)
    gen = theirs(path)
    return {seed: solo(gen, seed) for seed in range(5)}


@pytest.mark.parametrize("names", ["old", "new"])
def test_a_session_says_what_moshi_says_past_the_end_of_its_ring(
    names: str, tensors: dict[str, Tensor], expected: Solos
) -> None:
    held = tensors if names == "old" else newer_names(tensors, SHAPE.dep_q)
    ours = Talker(SHAPE, held, lead=0, window=SHAPE.context)
    said = [ours.step({0: frame})[0] for frame in codes(1, FRAMES, SHAPE.card)]
    assert expected[1][0] is None and len({tuple(t) for t in expected[1] if t}) > 20
    assert said == expected[1]


def test_moshi_takes_the_newer_names_for_the_same_weights(
    tensors: dict[str, Tensor], expected: Solos, tmp_path: Path
) -> None:
    save_file(newer_names(tensors, SHAPE.dep_q), tmp_path / "newer.safetensors")
    assert solo(theirs(tmp_path / "newer.safetensors"), 1) == expected[1]


def test_joining_leaving_pausing_and_reusing_a_slot_is_as_being_alone(
    tensors: dict[str, Tensor], expected: Solos
) -> None:
    """Slots: one that talks throughout, one that joins late, one that pauses every third tick
    past its ring's end, and one whose slot another takes over."""
    ours = Talker(SHAPE, tensors, lead=0, window=SHAPE.context, slots=4)
    said: dict[int, list[list[int] | None]] = {seed: [] for seed in range(5)}
    who: dict[int, int] = {}
    joins = {0: (0, 0), 3: (3, 3), 5: (2, 2), 7: (1, 1), 18: (3, 4)}
    for tick in range(48):
        if tick in joins:
            slot, seed = joins[tick]
            who[slot] = seed
            ours.start(slot)
        if tick == 15:
            del who[3]
        talking = {
            slot: codes(seed, FRAMES, SHAPE.card)[len(said[seed])]
            for slot, seed in who.items()
            if len(said[seed]) < FRAMES and not (slot == 2 and tick % 3 == 0)
        }
        for slot, tokens in ours.step(talking).items():
            said[who[slot]].append(tokens)
    assert [len(said[seed]) for seed in range(5)] == [26, 26, 26, 12, 26]
    assert said == {seed: expected[seed][: len(said[seed])] for seed in range(5)}


@pytest.fixture(scope="module")
def codec() -> dict[str, Tensor]:
    torch.manual_seed(3)
    return random_weights.codec(MIMI)


@pytest.fixture(scope="module")
def their_mimi(codec: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("mimi") / "mimi.safetensors"
    save_file(codec, path)
    return get_mimi(path, mimi_config(MIMI), num_codebooks=8)


def test_the_codec_names_the_same_codes_and_sounds_the_same(
    codec: dict[str, Tensor], their_mimi: Any
) -> None:
    ours = Mimi(MIMI, Weights(codec), slots=1)
    run = torch.ones(1, dtype=torch.bool)
    with torch.no_grad(), their_mimi.streaming(1):
        for frame in torch.from_numpy(sound(1, 30)):
            expected = their_mimi.encode(frame[None, None])
            heard, _ = ours.encode(frame[None], run)
            assert heard.tolist() == expected[..., 0].tolist()
            spoken = ours.decode(heard, run)
            torch.testing.assert_close(
                spoken[0], their_mimi.decode(expected)[0, 0], atol=1e-5, rtol=0
            )


def test_a_codec_slot_that_pauses_and_is_reused_is_as_one_alone(
    codec: dict[str, Tensor], their_mimi: Any
) -> None:
    frames = torch.from_numpy(sound(2, 14))
    with torch.no_grad(), their_mimi.streaming(1):
        expected = [their_mimi.encode(frame[None, None])[0, :, 0].tolist() for frame in frames]
    ours = Mimi(MIMI, Weights(codec), slots=2)
    both = torch.ones(2, dtype=torch.bool)
    for frame in torch.from_numpy(sound(3, 5)):
        ours.decode(ours.encode(frame.expand(2, -1), both)[0], both)
    ours.start(torch.tensor([False, True]))
    said: list[list[int]] = []
    for tick in range(20):
        run = torch.tensor([True, tick % 3 > 0])
        frame = frames[len(said)] if len(said) < len(frames) else frames[0] * 0
        heard, _ = ours.encode(torch.stack([frame * 0.5, frame]), run)
        if run[1]:
            said.append(heard[1].tolist())
    assert said[: len(frames)] == expected[: len(said)]


def test_the_codec_in_full_size_sounds_the_same() -> None:
    torch.manual_seed(4)
    weights = random_weights.codec(MimiShape())
    theirs = get_mimi(None, num_codebooks=8)
    theirs.load_state_dict(weights)
    ours = Mimi(MimiShape(), Weights(weights), slots=1)
    run = torch.ones(1, dtype=torch.bool)
    with torch.no_grad(), theirs.streaming(1):
        for frame in torch.from_numpy(sound(5, 3, MimiShape().frame)):
            expected = theirs.encode(frame[None, None])
            heard, _ = ours.encode(frame[None], run)
            assert heard.tolist() == expected[..., 0].tolist()
            spoken = ours.decode(heard, run)[0]
            assert spoken.abs().max() > 0.01
            torch.testing.assert_close(spoken, theirs.decode(expected)[0, 0], atol=1e-5, rtol=0)
