"""A text as the words that are shown while they are spoken."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING

from engine.cascade.stages import Word

if TYPE_CHECKING:
    from collections.abc import Sequence


def written(text: str) -> list[str]:
    """The words of ``text``, each with the space behind it; joined they are ``text``."""
    return re.findall(r"\s*\S+\s*|\s+", text)


def spread(words: Sequence[str], start: int, end: int) -> tuple[Word, ...]:
    """``words`` over the samples ``start``..``end``, each for as long as it has letters."""
    letters = [len(word.strip()) for word in words]
    total = sum(letters) or 1
    ends = [start + (end - start) * part // total for part in accumulate(letters)]
    return tuple(map(Word, words, [start, *ends[:-1]], ends))
