"""Moonshine tiny-en: the embedded recogniser.

The encoder reads a take at once; the decoder then writes one token after another, 7 ms each, which
is most of the time a take costs. The takes of a turn grow, and what an earlier one said is mostly
how the longer one begins. So its tokens are shown to the decoder in one pass, which tells what
greedy decoding writes at each place; as far as both agree the tokens stand, and decoding goes on
behind them. A hint that is wrong costs that pass and changes nothing. (Nothing but near-ties: the
network is quantised with scales taken from all tokens of a pass, so its logits differ a little with
how many are read at once. None was seen to fall the other way in the tests' recordings.)

Sources: the paper (arXiv 2410.15608) for the bound on tokens; Hugging Face Optimum for the export,
whose decoder wants the encoder's mask at the length of the sound.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from engine.cascade.stages import Recognition, StageError
from engine.cascade.worker import Stopped, Worker
from engine.onnx import Network, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from engine.contract import Samples

RATE = 16_000
"""Hz, of the sound it takes."""

LONGEST = 120 * RATE
"""Samples of a take that are recognised; the rest is left out."""

_PIECE = 24 * RATE
"""Samples the model hears at once: it was trained on up to 30 s, and writes 194 tokens at most."""

_SHORTEST = RATE // 10
"""Samples under which nothing can have been said."""

_QUIETEST = 0.003
"""A take that is nowhere louder holds no words; of silence this model makes "You"."""

_TOKENS_PER_SECOND = 6.5
"""The most that people say; beyond, the model is making things up."""

_START = 1
_END = 2


class Moonshine:
    """The recogniser (:class:`engine.cascade.stages.Recogniser`), for English.

    Args:
        folder: ``encoder_model.ort``, ``decoder_model_merged.ort`` and ``tokenizer.bin``.
        threads: that share one take.
    """

    rate = RATE
    languages = ("en",)

    def __init__(self, folder: Path, threads: int = 2) -> None:
        self._folder = folder
        self._threads = threads
        self._worker = Worker("stt")

    async def start(self) -> None:
        """Loads and warms up."""
        await self._worker.run(self._load)

    async def transcribe(
        self, pcm: Samples, *, language: str = "", before: Recognition | None = None
    ) -> Recognition:
        """What ``pcm`` says, up to ``LONGEST``; nothing for less than a tenth of a second.

        Raises:
            StageError: the model failed, or ``language`` is not English.
        """
        if language and language.split("-")[0].lower() != "en":
            raise StageError("stt", "language: expected en, the only one this model knows")
        hint = before.tokens if before else ()
        return await self._worker.run(lambda stopped: self._recognise(pcm, hint, stopped))

    async def stop(self) -> None:
        """Frees what it holds."""
        self._worker.close()

    def _load(self, stopped: Stopped) -> None:
        self._encoder = Network(self._folder / "encoder_model.ort", self._threads)
        self._decoder = Network(self._folder / "decoder_model_merged.ort", self._threads)
        self._vocabulary = _vocabulary((self._folder / "tokenizer.bin").read_bytes())
        self._recognise(np.full(RATE, 0.1, np.float32), (_END + 1,), stopped)

    def _recognise(self, pcm: Samples, hint: Sequence[int], stopped: Stopped) -> Recognition:
        """In ``tokens``, the start token stands between the pieces of a long take."""
        tokens: list[int] = []
        texts: list[str] = []
        for piece in pieces(pcm):
            known = list(takewhile(lambda token: token != _START, hint))
            hint = hint[len(known) + 1 :]
            said = self._piece(piece, known, stopped)
            tokens += [_START, *said] if texts else said
            texts.append(
                b"".join(self._vocabulary[token] for token in said).decode(errors="replace")
            )
        return Recognition(" ".join("".join(texts).split()), tuple(tokens))

    def _piece(self, pcm: Samples, hint: Sequence[int], stopped: Stopped) -> list[int]:
        said: list[int] = []
        if len(pcm) < _SHORTEST or np.abs(pcm).max() < _QUIETEST or stopped():
            return said
        most = int(len(pcm) / RATE * _TOKENS_PER_SECOND) + 4
        mask = np.ones((1, len(pcm)), np.int64)
        (sound,) = self._encoder({"input_values": pcm[np.newaxis], "attention_mask": mask})
        for token in greedy(_Decoding(self._decoder, sound, mask), hint[:most]):
            if token == _END or len(said) == most or stopped():
                break
            said.append(token)
            if repeated := loop(said):
                return said[:-repeated]
        return said


class _Decoding:
    """The decoder at work on one piece of sound.

    On the first pass the graph makes the keys and values of the sound; they are kept and given back
    on each further one, which is what ``use_cache_branch`` is about.
    """

    def __init__(self, network: Network, sound: Tensor, mask: Tensor) -> None:
        self._network = network
        self._sound = {"encoder_hidden_states": sound, "encoder_attention_mask": mask}
        self._past: dict[str, Tensor] = {
            name: np.zeros((1, shape[1], 0, shape[3]), np.float32)
            for name, shape in network.inputs.items()
            if name.startswith("past_key_values")
        }
        self._begun = False

    def read(self, tokens: Sequence[int]) -> list[int]:
        """Reads on; the likeliest token after each of ``tokens``."""
        logits, *present = self._network(
            {
                "input_ids": np.array([tokens], np.int64),
                "use_cache_branch": np.array([self._begun]),
                **self._sound,
                **self._past,
            }
        )
        for output, value in zip(self._network.outputs[1:], present, strict=True):
            name = output.replace("present", "past_key_values")
            if ".decoder." in name or not self._begun:
                self._past[name] = value
        self._begun = True
        likeliest: list[int] = logits[0].argmax(axis=-1).tolist()
        return likeliest

    def forget(self, tokens: int) -> None:
        """As if the last ``tokens`` had not been read."""
        for name, value in self._past.items():
            if ".decoder." in name:
                self._past[name] = np.ascontiguousarray(value[:, :, : value.shape[2] - tokens])


def greedy(decoding: _Decoding, hint: Sequence[int]) -> Iterator[int]:
    """The likeliest token after all before it, again and again; ``hint`` guesses how they begin."""
    unread = [_START, *hint]
    while True:
        following = decoding.read(unread)
        guesses = zip(unread[1:], following, strict=False)
        agreed = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], guesses))
        if wrong := len(unread) - 1 - agreed:
            decoding.forget(wrong)
        yield from following[: agreed + 1]
        unread = [following[agreed]]


def loop(tokens: Sequence[int]) -> int:
    """How many last tokens only repeat the phrase before them, or 0.

    A recogniser that lost its way says one phrase for ever. Four times and eight tokens are more
    than people repeat themselves.
    """
    for length in range(1, 11):
        repeats = max(4, -(-8 // length))
        tail = tokens[-length * repeats :]
        if len(tail) == length * repeats and tail[length:] == tail[:-length]:
            return length * (repeats - 1)
    return 0


def pieces(pcm: Samples) -> Iterator[Samples]:
    """``pcm`` in pieces the model can hear, cut at the quietest moment of their last third.

    Where a cut falls depends on the piece alone: a longer take of the same sound is cut alike.
    """
    pcm = pcm[:LONGEST]
    early, step = _PIECE * 2 // 3, _SHORTEST
    while len(pcm) > _PIECE:
        loudness = np.square(pcm[early:_PIECE].reshape(-1, step)).sum(axis=1)
        cut = early + int(loudness.argmin()) * step + step // 2
        yield pcm[:cut]
        pcm = pcm[cut:]
    yield pcm


def _vocabulary(data: bytes) -> list[bytes]:
    """The bytes each token stands for.

    An entry is its length and its bytes; a length from 128 takes two bytes, low seven bits first.
    """
    entries = []
    at = 0
    while at < len(data):
        length, at = data[at], at + 1
        if length >= 128:
            length, at = length - 128 + 128 * data[at], at + 1
        entries.append(_plain(data[at : at + length]))
        at += length
    return entries


def _plain(entry: bytes) -> bytes:
    if byte := re.fullmatch(rb"<0x([0-9A-Fa-f]{2})>", entry):
        return bytes([int(byte[1], 16)])
    if re.fullmatch(rb"<.+>", entry):
        return b""
    return entry.replace("\u2581".encode(), b" ")
