"""A model from its files, as they are published.

A folder, or a repository of the Hugging Face cache at a pinned revision, holds: ``config.json``
(optional; without one it is Moshi 7B), the language model, Mimi and the SentencePiece tokenizer,
and for PersonaPlex ``voices.tgz`` or a folder ``voices`` of ``.pt`` files. Which of the two rules
a model steps by is told by its configuration's ``model_type`` or by its voices.

Reading a voice runs no code: ``weights_only`` admits tensors and nothing else.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.contract import EngineError
from engine.duplex.prompt import Voice
from engine.duplex.shapes import MimiShape, Shape
from engine.duplex.weights import Weights

MODEL = "model.safetensors"
MIMI = "tokenizer-e351c8d8-checkpoint125.safetensors"
TOKENIZER = "tokenizer_spm_32k_3.model"
VOICES = "voices.tgz"

_ONLY = {
    "gating": "silu",
    "norm": "rms_norm_f32",
    "positional_embedding": "rope",
    "depformer_pos_emb": "none",
    "depformer_gating": "silu",
    "depformer_multi_linear": True,
    "depformer_weights_per_step": True,
    "depformer_weights_per_step_schedule": None,
    "depformer_low_rank_embeddings": None,
    "depformer_norm": None,
    "cross_attention": False,
    "demux_second_stream": False,
    "extra_heads_num_heads": 0,
    "quantize": False,
    "lora": False,
}
"""What a configuration may say where this engine knows one way only."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was read.

    ``lead`` is the step rule: 0 Moshi's, 1 PersonaPlex's. ``embeddings`` [any, dim] are those of
    all ``voices``, by their names.
    """

    shape: Shape
    mimi_shape: MimiShape
    lead: int
    weights: Weights
    mimi: Weights
    tokenizer: Path
    voices: dict[str, Voice]
    embeddings: Tensor

    @property
    def window(self) -> int:
        """Frames that the model was made to look back on, itself included.

        PersonaPlex's reference dates the oldest entry of a full ring as future, so it never saw
        the last frame of its context.
        """
        return self.shape.context - self.lead


def folder(source: str, revision: str | None = None) -> Path:
    """Where the files of ``source`` lie: a folder, or a repository, fetched where it is missing.

    Raises:
        EngineError: it is no folder, and no pinned repository that can be had.
    """
    if Path(source).is_dir():
        return Path(source)
    if revision is None:
        raise EngineError(f"model: expected a folder or a repository with a revision, got {source}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = ["config.json", "*.safetensors", "*.model", VOICES]
    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise EngineError(f"model: {source} at {revision} cannot be had: {error}") from error


def read(
    source: Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.bfloat16
) -> Checkpoint:
    """Reads the files in ``source``; the language model as ``dtype``, Mimi as 32-bit floats.

    Raises:
        EngineError: a file is missing, or says what this engine does not know.
    """
    config = _config(source / "config.json")
    persona = config.get("model_type") == "personaplex" or _voice_files(source)
    try:
        shape = msgspec.convert(config, Shape)
        if persona:
            shape = msgspec.structs.replace(shape, dep_q=shape.n_q)
        mimi_name = config.get("mimi_config_name")
        mimi_shape = msgspec.convert(_config(source / mimi_name) if mimi_name else {}, MimiShape)
    except msgspec.ValidationError as error:
        raise EngineError(f"config.json: {error}") from error
    weights = _tensors(source / config.get("moshi_name", MODEL), device, dtype)
    voices, embeddings = _voices(source, shape) if persona else ({}, torch.zeros(1, shape.dim))
    return Checkpoint(
        shape=shape,
        mimi_shape=mimi_shape,
        lead=1 if persona else 0,
        weights=weights,
        mimi=_tensors(source / config.get("mimi_name", MIMI), device, torch.float32),
        tokenizer=_there(source / config.get("tokenizer_name", TOKENIZER)),
        voices=voices,
        embeddings=embeddings.to(device, dtype),
    )


def _config(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    config: dict[str, Any] = json.loads(file.read_bytes())
    for name, known in _ONLY.items():
        if config.get(name, known) != known:
            raise EngineError(f"{file.name}: {name}: expected {known}, got {config[name]}")
    if config.get("conditioners"):
        raise EngineError(f"{file.name}: conditioners: expected none, got some")
    return config


def _there(file: Path) -> Path:
    if not file.is_file():
        raise EngineError(f"model: expected a file {file.name} in {file.parent}, got none")
    return file


def _tensors(file: Path, device: torch.device | str, dtype: torch.dtype) -> Weights:
    return Weights(load_file(_there(file), device=str(device))).to(dtype)


def _voices(source: Path, shape: Shape) -> tuple[dict[str, Voice], Tensor]:
    """The voices by name, and their embeddings one behind the other."""
    voices: dict[str, Voice] = {}
    embeddings = [torch.zeros(1, shape.dim)]
    first = 1
    span = max(shape.delays) + 3
    for name, data in _voice_data(source):
        try:
            stored = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        except UnpicklingError as error:
            raise EngineError(f"voice {name}: expected tensors only: {error}") from error
        heard, cache = stored["embeddings"].float(), stored["cache"]
        if heard.shape[1:] != (1, 1, shape.dim) or cache.shape != (1, shape.rows, span):
            raise EngineError(
                f"voice {name}: expected embeddings [any, 1, 1, {shape.dim}] and a cache "
                f"[1, {shape.rows}, {span}], got {list(heard.shape)} and {list(cache.shape)}"
            )
        voices[name] = Voice(first, len(heard), cache[0].numpy().astype(np.int64))
        embeddings.append(heard.view(-1, shape.dim))
        first += len(heard)
    return voices, torch.cat(embeddings)


def _voice_files(source: Path) -> bool:
    return (source / VOICES).is_file() or (source / "voices").is_dir()


def _voice_data(source: Path) -> Iterator[tuple[str, bytes]]:
    """Each voice's name and file."""
    if (source / VOICES).is_file():
        with tarfile.open(source / VOICES) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.name.endswith(".pt") else None
                if file is not None:
                    yield Path(member.name).stem, file.read()
    else:
        for path in sorted((source / "voices").glob("*.pt")):
            yield path.stem, path.read_bytes()
