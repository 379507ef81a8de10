"""What is known of a model without it.

Sessions hold these facts and never the model, so that one that broke can be let go of whole, and
so that anything that is a ``Batch`` can be served, a simulated one too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.contract import EngineInfo
from engine.duplex.options import Choices

if TYPE_CHECKING:
    from engine.duplex.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Facts:
    """Of a model whose frame is ``info.tick`` samples in, and as long out."""

    info: EngineInfo
    period: int
    """Nanoseconds between two ticks."""
    audible: float
    """Root mean square from which a frame counts as speech."""
    silence_ms: int
    """Silence that ends a reply."""
    says: Callable[[], Callable[[int], str]]
    """For a new caller: what each text token adds to the words."""
    choices: Callable[[], Choices]
    """For a new caller: how its tokens are chosen."""
    prompt: Callable[[str, str], Prompt | None] = lambda voice, role: None
    """What a caller's slot reads first, by its voice and role; ``ValueError``: it cannot."""
    takes_role: bool = True
    room: int | None = None
    """Samples of a caller's that may wait; None: as many as ``Buffer`` says."""
    positions: int | None = None
    """What a call reads and runs at most, and of these its frames; None: any number."""
    frames: int | None = None

    @property
    def frame(self) -> int:
        """Samples that a tick hears."""
        assert self.info.tick is not None
        return self.info.tick

    @property
    def spoken(self) -> int:
        """Samples that a tick says."""
        return self.frame * self.info.output_rate // self.info.input_rate
