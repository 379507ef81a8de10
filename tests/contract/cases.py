"""The engines that the contract is tried on, each direct and across the process border."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pytest

from engine.contract import Samples
from tests.sounds import SENTENCES, hibari

Sound: TypeAlias = Callable[[float, int], Samples]
"""Makes sound of some seconds at a rate."""


def silence(seconds: float, rate: int) -> Samples:
    """Nothing said."""
    return np.zeros(int(seconds * rate), np.float32)


def tone(seconds: float, rate: int) -> Samples:
    """What the simulated engines take for speech."""
    at = np.arange(int(seconds * rate))
    return (0.3 * np.sin(2 * np.pi * 300 * at / rate)).astype(np.float32)


def sentence(seconds: float, rate: int) -> Samples:
    """A whole sentence, longer than ``seconds``: what holds no words is no turn."""
    whole = _sentence(rate)
    assert len(whole) >= seconds * rate
    return whole


@cache
def _sentence(rate: int) -> Samples:
    spoken = hibari(SENTENCES[0], rate)
    heard = np.flatnonzero(np.abs(spoken) > 0.02)
    return spoken[heard[0] : heard[-1] + 1]


@dataclass(frozen=True, slots=True)
class Case:
    """An engine and its options, chosen for speed where an engine lets one choose."""

    name: str
    engine: str
    options: dict[str, Any] = field(default_factory=dict)
    speech: Sound = tone
    """What it takes for speech, of at least some seconds."""
    click: float = 0.02
    """Seconds of its speech that can be heard and are too short for any."""
    patience: float = 5.0
    """Seconds within which it has done what is asked of it."""
    marks: tuple[pytest.MarkDecorator, ...] = ()

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
TRANSCRIBED = Case(
    "transcribed",
    "simulated",
    CLOCKED.options | {"transcriber": {"name": "simulated"}},
)
CASCADE = Case(
    "cascade",
    "cascade",
    {"ahead": 1.0},
    speech=sentence,
    click=0.05,
    patience=20.0,
    marks=(pytest.mark.weights,),
)

SIMULATED = (ECHO, SCRIPTED, UNCLOCKED, CLOCKED)
CASES = (*SIMULATED, TRANSCRIBED, CASCADE)
TOLD = tuple(case for case in CASES if case.told)


def on(*cases: Case) -> pytest.MarkDecorator:
    """Tries a test on each of ``cases``."""
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case.name, marks=case.marks) for case in cases]
    )
