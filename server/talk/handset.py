"""What a caller speaks into and listens to: a file (:mod:`server.talk.files`) or devices.

Sound is mono float32 at ``RATE`` and moves in steps of ``FRAME`` samples, 20 ms each.
"""

from __future__ import annotations

from typing import Protocol

from engine.contract import Samples
from server.talk.dialogue import RATE

FRAME = RATE // 50


class HandsetProblem(Exception):
    """A file or a device cannot be used; the message names it and says why."""


class Handset(Protocol):
    """A caller's mouth and ear."""

    @property
    def ended(self) -> bool:
        """Whether the caller has nothing more to say."""

    @property
    def room(self) -> int:
        """Samples that can be played now."""

    def heard(self) -> Samples:
        """What the caller said since the last step.

        Raises:
            HandsetProblem: it cannot be had any more.
        """

    def play(self, pcm: Samples) -> None:
        """Plays sound, as much as there is room for."""

    def silence(self) -> int:
        """Drops what has not sounded yet; returns how many samples that was."""

    def close(self) -> None:
        """Lets go."""
