"""What was recorded in the page, read by the engine's own recogniser."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from engine.cascade.moonshine import RATE as RECOGNISED
from engine.cascade.moonshine import Moonshine
from engine.contract import Samples
from engine.weights import Paths
from tests.browser.recording import RATE
from tests.sounds import resampled, words


def recognised(weights: Paths, recorded: Sequence[Samples]) -> list[str]:
    """What each of ``recorded`` says."""
    with ThreadPoolExecutor(1) as thread:  # the browser's driver has this one's event loop
        return thread.submit(asyncio.run, _recognised(weights, recorded)).result()


def found(captioned: str, text: str) -> tuple[int, int]:
    """How many of the words of ``captioned`` are in ``text`` too, and how many there are."""
    rest, wanted = words(text), words(captioned)
    missing = 0
    for word in wanted:
        if word in rest:
            rest.remove(word)
        else:
            missing += 1
    return len(wanted) - missing, len(wanted)


async def _recognised(weights: Paths, recorded: Sequence[Samples]) -> list[str]:
    recogniser = Moonshine(weights.moonshine)
    await recogniser.start()
    texts = [
        (await recogniser.transcribe(resampled(sound, RATE, RECOGNISED))).text for sound in recorded
    ]
    await recogniser.stop()
    return texts
