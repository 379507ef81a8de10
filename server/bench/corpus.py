"""What the bench says to the server: sentences spoken by machines, and recorded people.

The engine speaks its own sentences (a reply with the text given), Debian's ``flite`` speaks them
again in another voice, and Debian's ``pocketsphinx-testdata`` holds recordings of a person reading.
Every clip is 16 kHz mono on a floor of room noise, so that silence is never digital.
"""

from __future__ import annotations

import subprocess
import tempfile
import wave
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine import contract
from engine.audio import pcm
from engine.audio.resample import Resampler
from engine.contract import Engine, Samples
from engine.reading import read

RATE = 16_000
LOUD = 0.015
"""Above it a sample counts as speech; the last one is the end of speech."""
ROOM = 2e-4
"""RMS of the room noise."""
GAP = (0.4, 0.7)
"""Seconds of a pause for thought."""

SENTENCES = (
    "Could you tell me what the weather will be like tomorrow?",
    "I would like to book a table for four people on Friday.",
    "Please turn off the lights in the kitchen before you leave.",
    "My name is Rebecca and I live near the old station.",
    "How many planets are there in the solar system?",
    "The meeting has been moved to Wednesday morning.",
    "Remind me to call my mother when I get home tonight.",
    "What is the capital of France?",
    "I think the blue jacket looks better than the green one.",
    "Can you recommend some quiet music for reading?",
    "What should I cook for dinner this evening?",
    "She bought some apples and a loaf of bread.",
    "We should leave before sunrise to avoid the traffic.",
    "Do you know a good recipe for vegetable soup?",
    "He has been working on that project for seven years.",
    "My flight to Chicago was cancelled because of the storm.",
    "Which animal is the largest in the ocean?",
    "The library closes at eight but the museum stays open.",
    "Yes, that sounds great, thank you for your help.",
    "Who wrote the play about Romeo and Juliet?",
)


@dataclass(frozen=True, slots=True)
class Clip:
    """A caller's turn: ``pcm`` from silence to silence, ``end`` the last sample of speech."""

    name: str
    pcm: Samples
    end: int


def clip(name: str, speech: Samples, rng: np.random.Generator) -> Clip:
    """Speech cut to its loud part, in a quiet room: 0.3 s before, its end told."""
    loud = np.flatnonzero(np.abs(speech) > LOUD)
    speech = np.concatenate((np.zeros(RATE * 3 // 10, np.float32), speech[loud[0] : loud[-1] + 1]))
    return Clip(name, (speech + room(len(speech), rng)).astype(np.float32), len(speech))


def room(samples: int, rng: np.random.Generator) -> Samples:
    """The noise of a quiet room."""
    return rng.normal(0, ROOM, samples).astype(np.float32)


def paused(whole: Clip, rng: np.random.Generator) -> Clip:
    """The clip with a pause for thought at its quietest place in mid-sentence."""
    window = RATE // 50
    third = whole.end // 3
    power = [
        float(np.square(whole.pcm[at : at + window]).sum())
        for at in range(third, 2 * third, window // 2)
    ]
    at = third + int(np.argmin(power)) * window // 2 + window // 2
    gap = room(round(RATE * rng.uniform(*GAP)), rng)
    sound = np.concatenate((whole.pcm[:at], gap, whole.pcm[at:]))
    return Clip(f"{whole.name}, paused", sound, whole.end + len(gap))


async def spoken(engine: Engine, sentences: Iterable[str]) -> AsyncIterator[Samples]:
    """Each sentence in the engine's own voice, at 16 kHz."""
    session = await engine.open()
    events = read(session)
    for number, sentence in enumerate(sentences):
        session.order(contract.Respond(reply=f"say{number}", revision=0, verbatim=sentence))
        resampler = Resampler(engine.info.output_rate, RATE)
        pieces: list[Samples] = []
        made = 0
        async for event in events:
            if isinstance(event, contract.ReplyAudio):
                pieces.append(resampler.push(pcm.floats(event.pcm)))
                made += len(event.pcm)
                session.order(contract.Played(reply=event.reply, samples=made))
            elif isinstance(event, contract.ReplyEnded):
                break
        yield np.concatenate(pieces)
    session.order(contract.Close())
    async for _ in events:
        pass


def flite(sentences: Iterable[str]) -> list[Samples]:
    """Each sentence in flite's voice ``slt``, 16 kHz."""
    spoken = []
    for sentence in sentences:
        with tempfile.NamedTemporaryFile(suffix=".wav") as file:
            command = ["flite", "-voice", "slt", "-t", sentence, "-o", file.name]
            subprocess.run(command, check=True, capture_output=True)
            spoken.append(recorded(Path(file.name)))
    return spoken


def recorded(path: Path) -> Samples:
    """A 16-bit mono WAV, at 16 kHz."""
    with wave.open(str(path)) as file:
        sound = pcm.from_pcm16(file.readframes(file.getnframes()))
        return Resampler(file.getframerate(), RATE).push(sound)
