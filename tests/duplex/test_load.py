"""Files as they are published."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.contract import EngineError
from engine.duplex import load
from engine.duplex.build import Plan, build
from engine.duplex.options import Choices
from engine.duplex.shapes import Shape
from engine.duplex.text import Tokenizer
from tests.duplex.tiny import BIG_BOOKS, PERSONA, SHAPE, Talker, codes, join, newer_names, write


@pytest.fixture(scope="module")
def persona(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("persona"), PERSONA, BIG_BOOKS)


def halved(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The file of a model of 16 depth steps that ships the weights of 8."""
    half = {}
    for name, tensor in tensors.items():
        parts = name.split(".")
        per_step = parts[0] in ("depformer_in", "linears", "depformer_emb")
        if name.startswith("depformer.") and "self_attn" in name:
            half[name] = tensor[: len(tensor) // 2].contiguous()
        elif name.startswith("depformer.") and "gating" in name:
            if int(parts[4]) < 8:
                half[name] = tensor
        elif not per_step or int(parts[1]) < 8:
            half[name] = tensor
    return half


def doubled(half: dict[str, Tensor]) -> dict[str, Tensor]:
    """What NVIDIA's loader makes of it: 8 to 15 are copies of 0 to 7."""
    whole = dict(half)
    for name, tensor in half.items():
        parts = name.split(".")
        if name.startswith("depformer.") and "self_attn" in name:
            whole[name] = torch.cat([tensor, tensor])
        elif name.startswith("depformer.") and "gating" in name:
            whole[".".join([*parts[:4], str(int(parts[4]) + 8), *parts[5:]])] = tensor
        elif parts[0] in ("depformer_in", "linears", "depformer_emb"):
            whole[f"{parts[0]}.{int(parts[1]) + 8}.weight"] = tensor
    return whole


@pytest.mark.parametrize("newer", [False, True])
def test_half_as_many_depth_weights_are_used_twice(persona: Path, newer: bool) -> None:
    half = halved(load_file(persona / "model.safetensors"))
    assert "depformer_emb.7.weight" in half and "depformer_emb.8.weight" not in half
    given = newer_names(half, 8) if newer else half
    ours, expected = (
        Talker(PERSONA, tensors, lead=1, window=23) for tensors in (given, doubled(half))
    )
    for frame in codes(1, 6, PERSONA.card):
        assert ours.step({0: frame}) == expected.step({0: frame})


def test_a_missing_tensor_and_one_of_another_size_are_named(persona: Path) -> None:
    tensors = load_file(persona / "model.safetensors")
    lacking = {name: tensor for name, tensor in tensors.items() if name != "linears.15.weight"}
    with pytest.raises(EngineError, match=r"linears.\{\}.weight: expected 16 or 8, got 15"):
        Talker(PERSONA, lacking, lead=1, window=23)
    with pytest.raises(EngineError, match=r"out_norm.alpha: expected size \[1, 1, 64\]"):
        Talker(PERSONA, {**tensors, "out_norm.alpha": torch.ones(1, 1, 63)}, lead=1, window=23)


def test_a_folder_without_a_configuration_is_moshi_7b(persona: Path, tmp_path: Path) -> None:
    for name in (load.MODEL, load.MIMI, load.TOKENIZER):
        (tmp_path / name).symlink_to(persona / name)
    checkpoint = load.read(tmp_path)
    assert (checkpoint.shape, checkpoint.lead, checkpoint.window) == (Shape(), 0, 3000)


def test_a_configuration_that_is_another_model_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, SHAPE)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "norm": "layer_norm"}))
    with pytest.raises(EngineError, match="norm: expected rms_norm_f32, got layer_norm"):
        load.read(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, SHAPE)
    (tmp_path / load.MIMI).unlink()
    with pytest.raises(EngineError, match=load.MIMI):
        load.read(tmp_path)


def voice(frames: int, dim: int = 64) -> bytes:
    file = io.BytesIO()
    cache = torch.arange(17 * 4).view(1, 17, 4)
    torch.save({"embeddings": torch.randn(frames, 1, 1, dim), "cache": cache}, file)
    return file.getvalue()


def with_voices(persona: Path, folder: Path, voices: dict[str, bytes]) -> Path:
    for file in persona.iterdir():
        (folder / file.name).symlink_to(file)
    with tarfile.open(folder / load.VOICES, "w:gz") as archive:
        for name, data in voices.items():
            member = tarfile.TarInfo(f"voices/{name}.pt")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return folder


def test_voices_make_a_model_personaplex_and_stand_in_one_table(
    persona: Path, tmp_path: Path
) -> None:
    folder = with_voices(persona, tmp_path, {"NATF0": voice(5), "VARM1": voice(3)})
    checkpoint = load.read(folder, dtype=torch.float32)
    assert (checkpoint.lead, checkpoint.window) == (1, 23)
    first, second = checkpoint.voices["NATF0"], checkpoint.voices["VARM1"]
    assert (first.first, first.count, second.first, second.count) == (1, 5, 6, 3)
    assert len(checkpoint.embeddings) == 9 and first.columns[16, 3] == 67
    by = build(checkpoint, Plan(slots=2, page=8))
    slot = join(by.slots, Choices(temperature=0), by.prompt([5, 6], second))
    for _ in range(4):
        by.slots.tick(np.ones(2, np.bool_))
    assert slot == 0 and by.slots.due.tolist() == by.slots.sane.tolist() == [True, False]


def test_a_voice_for_another_model_is_refused(persona: Path, tmp_path: Path) -> None:
    folder = with_voices(persona, tmp_path, {"NATF0": voice(5, dim=32)})
    with pytest.raises(EngineError, match=r"voice NATF0: expected embeddings \[any, 1, 1, 64\]"):
        load.read(folder)


def test_reading_a_voice_runs_no_code(persona: Path, tmp_path: Path) -> None:
    class Bad:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "ran",))  # type: ignore[return-value]

    file = io.BytesIO()
    torch.save({"embeddings": Bad()}, file)
    folder = with_voices(persona, tmp_path, {"NATF0": file.getvalue()})
    with pytest.raises(EngineError, match="voice NATF0"):
        load.read(folder)
    assert not (tmp_path / "ran").exists()


def test_a_repository_of_the_cache_is_found_at_its_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = "0123456789" * 4
    snapshot = tmp_path / "models--kyutai--moshiko" / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert load.folder("kyutai/moshiko", revision) == snapshot
    with pytest.raises(EngineError, match="cannot be had"):
        load.folder("kyutai/moshika", revision)
    with pytest.raises(EngineError, match="with a revision"):
        load.folder("kyutai/moshiko")


def test_a_role_is_told_between_its_tags_and_nothing_for_nothing(persona: Path) -> None:
    tokenizer = Tokenizer(persona / load.TOKENIZER)
    assert tokenizer.role("  ") == []
    assert tokenizer.role("you are wise") == tokenizer.role("<system> you are wise <system>")


def test_pieces_become_words_and_bytes_characters(persona: Path) -> None:
    tokenizer = Tokenizer(persona / load.TOKENIZER)
    speaker = tokenizer.speaker()
    assert speaker.says(0) == speaker.says(3) == ""
    tokens = tokenizer.role("wise and fr\N{LATIN SMALL LETTER E WITH ACUTE}e")
    said = [speaker.says(token) for token in tokens]
    assert "wise and fr\N{LATIN SMALL LETTER E WITH ACUTE}e" in "".join(said)
    assert "" in said
