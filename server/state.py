"""What the server keeps on disk for itself: where it lies, and how it is written."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """Where what the server makes for itself is kept (XDG base directories)."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "parley"


def write_whole(path: Path, content: bytes, mode: int) -> None:
    """Replaces ``path`` whole, never readable by more than ``mode`` says."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode, exist_ok=False)
    fresh.write_bytes(content)
    fresh.replace(path)
