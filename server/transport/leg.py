"""A leg: the media side of a call.

WebRTC and telephones implement it. A leg moves frames and knows when they were handed to the
network; it decides nothing about turns, replies or pacing. ``send`` is called by the pacer, one
frame at a time, each when it is due, so a leg never holds more than the frame that is on its way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from engine.contract import Samples, Sound


@dataclass(frozen=True, slots=True)
class Frame:
    """Sound from the caller, mono at the leg's input rate.

    ``concealed`` samples of it were made up for lost packets. ``pressed`` are the keys of a
    telephone (0-9, A-D, * or #) that the caller pressed meanwhile.
    """

    pcm: Sound
    concealed: int = 0
    pressed: str = ""


class Leg(Protocol):
    """The media side of one call."""

    @property
    def input_rate(self) -> int:
        """Hz, of the frames it yields."""

    @property
    def output_rate(self) -> int:
        """Hz, of the samples it takes."""

    def frames(self) -> AsyncIterator[Frame]:
        """The caller's sound as it arrives, until the leg ends. One reader only."""

    def send(self, pcm: Samples) -> None:
        """Hands one frame to the network now. After the end it is dropped."""

    @property
    def silent(self) -> float:
        """Seconds since there was a sign of life of the caller's."""
