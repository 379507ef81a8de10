"""Simulated speech: a tone per word, or a caller's own sound with words laid over it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.contract import Samples

_LETTER = 0.04
"""Seconds a letter lasts."""
_LONGEST = 25
"""Letters of a word that are sounded."""
_RAMP = 0.005
"""Seconds a tone takes to rise, and to fall."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, its trailing space included, and its sound."""

    text: str
    pcm: Samples


def spoken(text: str, rate: int, pitch: float = 1.0) -> Iterator[Word]:
    """``text`` as tones: each word has a pitch of its own and lasts as long as it is written."""
    return (Word(word, _tone(word, rate, pitch)) for word in words(text))


def laid_over(text: str, pcm: Samples) -> list[Word]:
    """``text`` spread evenly over sound that is there already."""
    parts = words(text) or [""]
    return [
        Word(part, piece)
        for part, piece in zip(parts, np.array_split(pcm, len(parts)), strict=True)
    ]


def words(text: str) -> list[str]:
    """The words of a text, each with the space behind it; joined they are the text, stripped."""
    parts = text.split()
    return [part + " " for part in parts[:-1]] + parts[-1:]


def _tone(word: str, rate: int, pitch: float) -> Samples:
    count = max(int(min(len(word), _LONGEST) * _LETTER * rate), 1)
    hertz = (200 + zlib.crc32(word.encode()) % 400) * pitch
    at = np.arange(count)
    ramp = np.minimum(np.minimum(at + 1, count - at) / (_RAMP * rate), 1.0)
    tone: Samples = (0.3 * ramp * np.sin(2 * np.pi * hertz * at / rate)).astype(np.float32)
    return tone
