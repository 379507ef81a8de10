"""Our own recogniser as the judge of what a caller was played."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from engine.cascade.moonshine import Moonshine
from tests.sounds import resampled, words

if TYPE_CHECKING:
    from engine.contract import Samples
    from engine.weights import Paths


class Ears:
    """Hears words."""

    def __init__(self, recogniser: Moonshine) -> None:
        self._recogniser = recogniser

    async def hear(self, pcm: Samples, rate: int) -> list[str]:
        """The words in ``pcm``."""
        sound = resampled(pcm, rate, self._recogniser.rate)
        return words((await self._recogniser.transcribe(sound)).text)


@asynccontextmanager
async def ears(weights: Paths) -> AsyncIterator[Ears]:
    """A pair of them."""
    recogniser = Moonshine(weights.moonshine, 1)
    await recogniser.start()
    try:
        yield Ears(recogniser)
    finally:
        await recogniser.stop()


def share_heard(said: list[str], heard: list[str]) -> float:
    """The share, 0..1, of the words of ``said`` that ``heard`` holds in their order."""
    row = [0] * (len(heard) + 1)
    for word in said:
        before = 0
        for at, other in enumerate(heard, 1):
            above = row[at]
            row[at] = before + 1 if word == other else max(above, row[at - 1])
            before = above
    return row[-1] / len(said)
