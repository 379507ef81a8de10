"""What a duplex engine is told to be, and how a caller's tokens are chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from engine.contract import EngineError
from engine.options import read

Entries = Literal["int8", "bfloat16", "float32"]


class Choices(Struct, frozen=True, kw_only=True):
    """How a caller's tokens are chosen; the references' defaults."""

    temperature: float = 0.8
    """Of audio; 0 takes the likeliest."""
    text_temperature: float = 0.7
    top_k: int = 250
    text_top_k: int = 25
    seed: int = 0


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A duplex engine."""

    model: str
    """A folder, or a Hugging Face repository."""
    revision: str | None = None
    """The repository's commit."""
    device: str = "cuda"
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Of the language model's weights."""
    slots: int = 32
    """Callers at once."""
    window: int | None = None
    """Frames (80 ms) that the model looks back on; None: as many as it was made for."""
    entries: Entries = "int8"
    """How attention's memory is stored."""
    pages: int | None = None
    """Pages of it for all callers together; None: a whole ring for each."""
    buckets: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 192, 256)
    """Numbers of slots that a GPU keeps a graph for."""
    tick_ms: float | None = None
    """Milliseconds between two ticks; None: the model's own frame. A slow machine needs more,
    and its callers then hear gaps."""
    longest_session: float | None = None
    """Seconds of model time after which a call ends; a short one is promised less memory."""
    audible: float = 0.005
    """Root mean square from which a frame counts as speech."""
    silence_ms: int = 800
    """Silence that ends a reply."""
    temperature: float = 0.8
    text_temperature: float = 0.7
    seed: int | None = None
    """Of every caller's choices; None: another for each."""


def parse(options: Mapping[str, Any]) -> Options:
    """Reads options as they come from a file or a command line.

    Raises:
        EngineError: an option is unknown or does not fit; the message names it.
    """
    parsed = read("duplex", options, Options)
    for name in ("slots", "window", "pages", "tick_ms", "longest_session", "silence_ms"):
        value = getattr(parsed, name)
        if value is not None and value <= 0:
            raise EngineError(f"duplex: {name}: expected more than 0, got {value:g}")
    return parsed
