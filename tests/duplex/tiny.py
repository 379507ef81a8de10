"""Models small enough for a test, in the published layouts, and ways to drive them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import sentencepiece
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.duplex import random_weights
from engine.duplex.depth import Depth
from engine.duplex.load import TOKENIZER
from engine.duplex.options import Choices, Entries
from engine.duplex.prompt import Prompt
from engine.duplex.ring import Ring
from engine.duplex.shapes import CodecTransformer, MimiShape, Quantizer, Seanet, Shape
from engine.duplex.slots import Slots
from engine.duplex.step import Chosen, Stepper
from engine.duplex.temporal import Temporal
from engine.duplex.weights import Weights

SHAPE = Shape(
    dim=64,
    num_heads=4,
    num_layers=2,
    context=16,
    text_card=100,
    card=32,
    depformer_dim=32,
    depformer_num_heads=2,
    depformer_num_layers=2,
    depformer_dim_feedforward=66,
)
PERSONA = msgspec.structs.replace(SHAPE, dep_q=16, card=2048, context=24)
MIMI = MimiShape(
    sample_rate=400,
    seanet=Seanet(dimension=16, n_filters=4, ratios=(2, 2, 2, 2)),
    quantizer=Quantizer(dimension=8, n_q=10, bins=32),
    transformer=CodecTransformer(num_heads=2, num_layers=2, context=10, dim_feedforward=32),
)
BIG_BOOKS = msgspec.structs.replace(MIMI, quantizer=Quantizer(dimension=8, n_q=10, bins=2048))

GREEDY = 0.0


def config(shape: Shape) -> dict[str, object]:
    """``config.json`` as Kyutai publishes it."""
    return {
        **json.loads(msgspec.json.encode(shape)),
        "existing_text_padding_id": 3,
        "causal": True,
        "layer_scale": None,
        "gating": "silu",
        "norm": "rms_norm_f32",
        "positional_embedding": "rope",
        "depformer_causal": True,
        "depformer_layer_scale": None,
        "depformer_multi_linear": True,
        "depformer_context": 8,
        "depformer_max_period": 10000,
        "depformer_gating": "silu",
        "depformer_pos_emb": "none",
        "depformer_weights_per_step": True,
    }


def mimi_config(shape: MimiShape) -> dict[str, dict[str, object]]:
    """A codec's configuration as moshi takes it."""
    net, dim = shape.seanet, shape.seanet.dimension
    return {
        "sample_rate": shape.sample_rate,  # type: ignore[dict-item]
        "frame_rate": shape.frame_rate,  # type: ignore[dict-item]
        "channels": 1,  # type: ignore[dict-item]
        "seanet": {
            **json.loads(msgspec.json.encode(net)),
            "channels": 1,
            "causal": True,
            "n_residual_layers": 1,
            "activation": "ELU",
            "dilation_base": 2,
            "disable_norm_outer_blocks": 0,
            "norm": "none",
            "pad_mode": "constant",
            "true_skip": True,
        },
        "quantizer": {
            **json.loads(msgspec.json.encode(shape.quantizer)),
            "input_dimension": dim,
            "output_dimension": dim,
        },
        "transformer": {
            **json.loads(msgspec.json.encode(shape.transformer)),
            "d_model": dim,
            "causal": True,
            "layer_scale": 0.01,
            "conv_layout": True,
            "gating": "none",
            "norm": "layer_norm",
            "positional_embedding": "rope",
            "input_dimension": dim,
            "output_dimensions": [dim],
        },
    }


def newer_names(tensors: Mapping[str, Tensor], steps: int) -> dict[str, Tensor]:
    """The same weights as moshi has named them since 0.2."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        for old, new in (("in_proj_weight", "in_projs"), ("out_proj.weight", "out_projs")):
            if name.endswith(old):
                count = steps if name.startswith("depformer") else 1
                for i, part in enumerate(tensor.view(count, -1, tensor.shape[1])):
                    renamed[name.replace(old, f"{new}.{i}.weight")] = part.contiguous()
                break
        else:
            renamed[name] = tensor
    return renamed


def write(
    folder: Path,
    shape: Shape,
    mimi: MimiShape = MIMI,
    *,
    tensors: dict[str, Tensor] | None = None,
    model_type: str = "moshi",
) -> Path:
    """A checkpoint on disk, every file where a published one has it."""
    torch.manual_seed(5)
    save_file(tensors or random_weights.language_model(shape), folder / "model.safetensors")
    save_file(random_weights.codec(mimi), folder / "tokenizer-e351c8d8-checkpoint125.safetensors")
    written = {**config(shape), "model_type": model_type, "mimi_config_name": "mimi.json"}
    (folder / "config.json").write_text(json.dumps(written))
    (folder / "mimi.json").write_text(json.dumps(mimi_config(mimi)))
    (folder / "words.txt").write_text("you are a wise and friendly teacher\n" * 40)
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "words.txt"),
        model_prefix=str(folder / "tokenizer_spm_32k_3"),
        vocab_size=400,
        hard_vocab_limit=False,
        byte_fallback=True,
        pad_id=3,
        minloglevel=2,
    )
    return folder


def with_words(folder: Path, shape: Shape, *rest: Any, **told: Any) -> Path:
    """A checkpoint that has a row for each of its tokenizer's words."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(write(folder, shape) / TOKENIZER))
    card = pieces.vocab_size()
    return write(folder, msgspec.structs.replace(shape, text_card=card), *rest, **told)


def join(slots: Slots, choices: Choices, prompt: Prompt | None = None) -> int | None:
    """Gives a caller a slot, if there is one, and lets it begin."""
    slot = slots.join()
    if slot is not None:
        slots.begin(slot, choices, prompt)
    return slot


class Talker:
    """A language model alone, driven in codes; every slot has its whole ring."""

    def __init__(
        self,
        shape: Shape,
        weights: Mapping[str, Tensor],
        *,
        lead: int,
        window: int,
        slots: int = 1,
        entries: Entries = "float32",
        page: int = 4,
        chunk: int = 8,
        temperature: float = GREEDY,
    ) -> None:
        named = Weights(weights)
        self.ring = Ring(
            layers=shape.num_layers,
            heads=shape.num_heads,
            size=shape.dim // shape.num_heads,
            slots=slots,
            window=window,
            chunk=chunk,
            page=page,
            entries=entries,
        )
        self.temporal = Temporal(shape, named, self.ring)
        self.stepper = Stepper(shape, self.temporal, Depth(shape, named, slots), slots, lead)
        self._slots = slots
        self._chosen = Chosen(
            torch.full((slots, 2), temperature),
            torch.full((slots, 2), 25),
            torch.arange(slots),
        )

    def start(self, slot: int, prompt: Prompt | None = None) -> None:
        """Sets a slot to its beginning, or to the end of a prompt that has been read."""
        reset = torch.arange(self._slots) == slot
        position = torch.full((self._slots,), 0 if prompt is None else prompt.position)
        columns, given = torch.zeros_like(self.stepper.tokens), self.stepper.given.clone().fill_(0)
        if prompt is not None:
            columns[slot] = torch.from_numpy(prompt.columns)
            given[slot] = torch.from_numpy(prompt.given)
        self.stepper.start(reset, position, columns, given)

    def read(self, rows: Sequence[tuple[int, Prompt, int]], table: Tensor | None = None) -> None:
        """Reads positions (slot, prompt, position) of prompts in one go."""
        slot = torch.tensor([slot for slot, _, _ in rows])
        position = torch.tensor([position for _, _, position in rows])
        tokens = np.stack([prompt.inputs[at] for _, prompt, at in rows])
        embedded = self.temporal.embed(torch.from_numpy(tokens))
        for row, (_, prompt, at) in enumerate(rows):
            if prompt.stored[at] >= 0:
                assert table is not None
                embedded[row] = table[prompt.stored[at]]
        run = torch.ones(len(rows), dtype=torch.bool)
        self.temporal.hear(embedded, self.ring.places(slot, position, run))

    def prime(self, slot: int, prompt: Prompt, piece: int = 8, table: Tensor | None = None) -> None:
        """Reads a prompt, ``piece`` positions at a time, and sets the slot behind it."""
        for first in range(0, prompt.position, piece):
            last = min(first + piece, prompt.position)
            self.read([(slot, prompt, at) for at in range(first, last)], table)
        self.start(slot, prompt)

    def step(self, codes: Mapping[int, Sequence[int]]) -> dict[int, list[int] | None]:
        """One tick of the slots that ``codes`` names: their tokens, or None where none are due."""
        given = torch.zeros(self._slots, 8, dtype=torch.long)
        run = torch.zeros(self._slots, dtype=torch.bool)
        for slot, frame in codes.items():
            given[slot], run[slot] = torch.tensor(frame), True
        said = self.stepper(given, run, self._chosen)
        return {slot: said.tokens[slot].tolist() if said.due[slot] else None for slot in codes}


def codes(seed: int, frames: int, card: int) -> list[list[int]]:
    """What a caller says, in codes."""
    drawn: list[list[int]] = np.random.default_rng(seed).integers(0, card, (frames, 8)).tolist()
    return drawn


def sound(seed: int, frames: int, frame: int = MIMI.frame) -> npt.NDArray[np.float32]:
    """What a caller says, [frames, samples]."""
    noise = np.random.default_rng(seed).normal(0, 0.3, (frames, frame))
    return noise.astype(np.float32)
