"""What the callers say: questions, and sounds that are none."""

from __future__ import annotations

import numpy as np

from engine.contract import Samples
from tests import sounds
from tests.browser.recording import RATE

FACTS = {
    "What is the capital of France?": "paris",
    "What is the capital of Italy?": "rome",
    "What is the capital of Japan?": "tokyo",
    "What is the capital of Spain?": "madrid",
    "What is the capital of Germany?": "berlin",
    "What is frozen water called?": "ice",
    "How many legs does a spider have?": "eight",
    "What do bees make?": "honey",
    "What is the largest ocean on Earth?": "pacific",
    "Which season comes after winter?": "spring",
    "Which star gives us light during the day?": "sun",
    "In which country are the pyramids of Giza?": "egypt",
}
"""Questions with a word that a right answer holds; the default model knows most of them."""
OPEN = (
    "What makes a good friend?",
    "How can I sleep better at night?",
    "Why do people keep dogs as pets?",
    "How do you make a good cup of coffee?",
    "What can I do on a rainy day?",
    "Tell me something interesting about the moon.",
    "Tell me about the history of bread.",
    "How do I learn to swim?",
)
"""Questions that take a sentence or two to answer."""


def spoken(text: str, voice: str = "flite") -> Samples:
    """``text`` in the voice ``flite`` or ``hibari``, without silence around it."""
    sound = {"flite": sounds.flite, "hibari": sounds.hibari}[voice](text, RATE)
    loud = np.flatnonzero(np.abs(sound) > 0.015)
    return sound[loud[0] : loud[-1] + 1]


def cough() -> Samples:
    """110 ms of a voice: speech to a detector of speech, and too short to have said anything."""
    clip = sounds.librivox(RATE)[0].pcm
    burst = clip[int(1.392 * RATE) : int(1.502 * RATE)].copy()
    fade = np.linspace(0, 1, RATE // 200, dtype=np.float32)
    burst[: len(fade)] *= fade
    burst[-len(fade) :] *= fade[::-1]
    loud: Samples = burst * (0.5 / np.abs(burst).max())
    return loud
