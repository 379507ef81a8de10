"""The engines that the contract is tried on, each direct and across the process border."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.contract import Samples


@dataclass(frozen=True, slots=True)
class Case:
    """An engine and its options, chosen for speed where an engine lets one choose."""

    name: str
    engine: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def told(self) -> bool:
        """It replies when told."""
        return bool(self.options.get("replies", "when_told") == "when_told")

    @property
    def clocked(self) -> bool:
        """It runs in real time."""
        return self.options.get("tick") is not None


_QUICK = {"capacity": 3, "ahead": 0.5}
_SCRIPT = [
    {"text": "Let me look that up for you, one moment please."},
    {"text": "Done.", "calls": [{"name": "look_up", "arguments": {"city": "Ghent"}}]},
]

ECHO = Case("echo", "simulated", _QUICK)
SCRIPTED = Case(
    "scripted",
    "simulated",
    _QUICK | {"mode": "scripted", "script": _SCRIPT, "transcripts": ["Hello there, engine."]},
)
UNCLOCKED = Case("unclocked", "simulated", _QUICK | {"replies": "by_itself"})
CLOCKED = Case("clocked", "simulated", _QUICK | {"replies": "by_itself", "tick": 1280})

CASES = (ECHO, SCRIPTED, UNCLOCKED, CLOCKED)


def speech(seconds: float, rate: int) -> Samples:
    """What these engines take for speech."""
    at = np.arange(int(seconds * rate))
    return (0.3 * np.sin(2 * np.pi * 300 * at / rate)).astype(np.float32)


def silence(seconds: float, rate: int) -> Samples:
    """Nothing said."""
    return np.zeros(int(seconds * rate), np.float32)
