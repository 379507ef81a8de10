"""What a check found: one line for an operator, who may know nothing of networks or models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of ``what``; ``text`` says how it is, and what to do if it is not ok.

    A problem keeps people from talking; with a warning some can, or all do worse.
    """

    level: Level
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.level:8} {self.what:14} {self.text}"
