"""Sound files as a caller's voice, and what the caller is played as a WAV file."""

from __future__ import annotations

import wave
from collections.abc import Generator
from itertools import chain
from pathlib import Path

import av
import numpy as np

from engine.audio.pcm import from_int16, to_pcm16
from engine.contract import Samples
from server.talk.dialogue import RATE
from server.talk.handset import FRAME, HandsetProblem


class FileHandset:
    """Says what is in a file, then nothing. What it is played goes nowhere.

    Args:
        path: a WAV file, or any other that FFmpeg reads, of any rate, width and channels.

    Raises:
        HandsetProblem: there is no sound to be read there.
    """

    room = FRAME

    def __init__(self, path: Path) -> None:
        self.ended = False
        self._pieces = read(path)
        self._next = np.zeros(0, np.float32)
        self._fill()
        if not len(self._next):
            raise HandsetProblem(f"{path}: expected sound, found none")

    def heard(self) -> Samples:
        """The next 20 ms."""
        self._fill()
        said, self._next = self._next[:FRAME], self._next[FRAME:]
        return np.pad(said, (0, FRAME - len(said)))

    def play(self, pcm: Samples) -> None:
        """Nobody listens."""

    def silence(self) -> int:
        """Whatever was played has sounded."""
        return 0

    def close(self) -> None:
        """Closes the file."""
        self._pieces.close()

    def _fill(self) -> None:
        while len(self._next) < FRAME and not self.ended:
            piece = next(self._pieces, None)
            self.ended = piece is None
            if piece is not None:
                self._next = np.concatenate([self._next, piece])


class Recording:
    """A WAV file at ``RATE``, mono, 16 bit.

    Raises:
        HandsetProblem: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._bytes = path.open("wb")
        except OSError as problem:
            raise HandsetProblem(f"{path}: cannot write: {problem.strerror}") from None
        self._file = wave.open(self._bytes, "wb")  # noqa: SIM115 - close() ends it
        self._file.setparams((1, 2, RATE, 0, "NONE", ""))

    def write(self, pcm: Samples) -> None:
        """Adds sound."""
        self._file.writeframes(to_pcm16(pcm))

    def close(self) -> None:
        """Completes the file."""
        self._file.close()
        self._bytes.close()


def read(path: Path) -> Generator[Samples]:
    """The sound of a file at ``RATE``, its channels mixed to one, a piece at a time.

    Raises:
        HandsetProblem: it cannot be read.
    """
    try:
        with path.open("rb") as file, av.open(file, "r") as container:
            resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
            for stream in container.streams.audio[:1]:
                for frame in chain(container.decode(stream), [None]):
                    for piece in resampler.resample(frame):
                        yield from_int16(piece.to_ndarray()[0])
    except OSError as problem:
        raise HandsetProblem(f"{path}: cannot read: {problem.strerror}") from None
    except av.FFmpegError:
        raise HandsetProblem(f"{path}: expected a sound file") from None
