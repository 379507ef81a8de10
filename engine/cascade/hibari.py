"""hibari: the embedded voice, Kokoro's ``af_heart`` distilled to 8 MB.

The package's grapheme-to-phoneme rules and signal processing are used as they are; its network runs
in our own session, because the graph knows how long it holds each phoneme and the package does not
ask. From that follow the exact times of the words.

What the network makes opens with 0.2 to 0.3 s of near-silence and closes with up to half a second.
Both are cut: a caller waits for the first audible sample, and a clause that is cut in mid-sentence
must not pause like one that is finished.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hibari import Hibari as Package
from hibari import dsp
from hibari.g2p import G2P
from hibari.tts import ASSETS, MAX_PHONEMES
from hibari.voices import voice_path

from engine.cascade.stages import Spoken, StageError, Word
from engine.cascade.words import spread, written
from engine.cascade.worker import Stopped, Worker
from engine.onnx import Network

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from engine.contract import Samples

RATE = 24_000
"""Hz, of the sound it makes."""

AUDIBLE = 0.01
"""Amplitude from which a sample can be heard."""

_LEAD = RATE // 100
"""Samples kept before the first audible one: a consonant opens softly."""

_PAUSES = {".!?…": 0.3, ",;:—": 0.18, "": 0.05}
"""Seconds of quiet that end a clause, by the mark it closes with."""

_AFTER_A_MARK = " \n\t\"')\N{RIGHT DOUBLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"
"""What may follow that mark in the text."""

_VOICE = "heart"
_DURATIONS = b"/CumSum_output_0"
"""The tensor of frames up to the end of each phoneme; the graph does not give it out by itself."""

_EARLY = 3
"""Frames by which the sound is ahead of them (Kokoro's ``pipeline.py``, ``join_timestamps``)."""


_MARKS = ';:,.!?—…"()“”'
"""Phonemes that are pauses and melody, not part of a word."""


class _Phrase(NamedTuple):
    """Words that are spoken in one breath, and their phonemes."""

    words: list[str]
    phonemes: str


class Hibari:
    """The voice (:class:`engine.cascade.stages.Voice`): American English, one female speaker."""

    rate = RATE
    voices = (_VOICE,)

    def __init__(self) -> None:
        self._worker = Worker("tts")

    async def start(self) -> None:
        """Loads and warms up."""
        await self._worker.run(self._load)

    async def speak(self, text: str, voice: str) -> AsyncGenerator[Spoken]:
        """Speaks a clause, a sentence at a time; the same sound for the same text.

        Raises:
            StageError: the voice failed, or there is no such voice.
        """
        if voice not in ("", _VOICE):
            raise StageError("tts", f"voice: expected {_VOICE}, the only one this model has")
        offset = 0
        for phrase in await self._worker.run(lambda stopped: list(self._phrases(text))):
            spoken = await self._worker.run(partial(self._speak, phrase, offset))
            yield spoken
            offset += len(spoken.pcm)

    async def stop(self) -> None:
        """Frees what it holds."""
        self._worker.close()

    def _load(self, stopped: Stopped) -> None:
        self._network = Network(with_output(Path(voice_path(_VOICE)).read_bytes(), _DURATIONS))
        self._g2p = G2P()
        self._ids: dict[str, int] = json.loads((Path(ASSETS) / "vocab.json").read_text())
        for phrase in self._phrases("All is warm by now, in Wimblesnook."):
            self._speak(phrase, 0, stopped)

    def _phrases(self, text: str) -> Iterator[_Phrase]:
        words = written(text)
        for sentence in Package.split_sentences(text):
            count = len(sentence.split())
            yield from self._breaths(words[:count])
            words = words[count:]
        if words:
            yield _Phrase(words, "")

    def _breaths(self, words: list[str]) -> Iterator[_Phrase]:
        """A sentence, or its parts, each as long as the network was trained on at most."""
        phonemes = "".join(phoneme for phoneme in self._g2p("".join(words)) if phoneme in self._ids)
        if len(phonemes) <= MAX_PHONEMES or len(words) == 1:
            yield _Phrase(words, phonemes[:MAX_PHONEMES])
        else:
            cut = _clause(words)
            yield from self._breaths(words[:cut])
            yield from self._breaths(words[cut:])

    def _speak(self, phrase: _Phrase, offset: int, stopped: Stopped) -> Spoken:
        if not phrase.phonemes.strip():
            return Spoken(np.zeros(0, np.float32), spread(phrase.words, offset, offset))
        ids = [0, *(self._ids[phoneme] for phoneme in phrase.phonemes), 0]
        *spectrum, frames = self._network(
            {"ids": np.array([ids], np.int64), "speed": np.ones(1, np.float32)}
        )
        sound: Samples = dsp.synth(*(part[0] for part in spectrum), np.random.default_rng(0))
        begin, quiet = _audible(sound)
        end = quiet + int(_pause(phrase.words[-1]) * RATE)
        edges = (frames - _EARLY) * (len(sound) // frames[-1])
        edges = np.clip(edges, begin, quiet) - begin + offset
        return Spoken(sound[begin:end], self._times(phrase, edges.tolist()))

    def _times(self, phrase: _Phrase, edges: Sequence[int]) -> tuple[Word, ...]:
        """The words, where ``edges[i]`` and ``edges[i + 1]`` are the samples around phoneme ``i``.

        A written word may be several when spoken ("$5.20"), or none ("-").
        """
        spans = [
            (edges[found.start()], edges[found.start() + len(found[0].rstrip(_MARKS))])
            for found in re.finditer(r"\S+", phrase.phonemes)
        ]
        counts = [len(self._g2p(word).split()) for word in phrase.words]
        if sum(counts) != len(spans):
            counts = [1] * len(phrase.words)
        if sum(counts) != len(spans):
            return spread(phrase.words, spans[0][0], spans[-1][1])
        words = []
        at = spans[0][0]
        for text, count in zip(phrase.words, counts, strict=True):
            own, spans = spans[:count], spans[count:]
            start, at = (own[0][0], own[-1][1]) if own else (at, at)
            words.append(Word(text, start, at))
        return tuple(words)


def _clause(words: Sequence[str]) -> int:
    """Where to part a long sentence: behind a mark in its middle half, or in the middle."""
    middle = len(words) // 2
    marked = [
        at
        for at in range(len(words) // 4 + 1, len(words) * 3 // 4 + 1)
        if words[at - 1].rstrip().endswith((",", ";", ":", "—"))
    ]
    return min(marked, key=lambda at: abs(at - middle), default=middle)


def _audible(sound: Samples) -> tuple[int, int]:
    """From just before ``sound`` can be heard to where it no more can; empty if it never can."""
    heard = np.flatnonzero(np.abs(sound) > AUDIBLE)
    return (max(0, int(heard[0]) - _LEAD), int(heard[-1]) + 1) if len(heard) else (0, 0)


def _pause(last_word: str) -> float:
    """The seconds of quiet behind a clause that ends in ``last_word``."""
    mark = last_word.rstrip(_AFTER_A_MARK)[-1:]
    return next(seconds for marks, seconds in _PAUSES.items() if not marks or mark in marks)


def with_output(model: bytes, tensor: bytes) -> bytes:
    """``model``, a serialised ONNX ModelProto, giving out one inner tensor more.

    Protobuf joins messages that stand one behind the other: behind the model goes
    ``ModelProto{graph: {output: {name: tensor}}}``, whose fields are 7, 12 and 1 (onnx.proto3).
    """
    return model + _field(7, _field(12, _field(1, tensor)))


def _field(number: int, content: bytes) -> bytes:
    """A protobuf field of bytes, shorter than 128."""
    return bytes([number << 3 | 2, len(content)]) + content
