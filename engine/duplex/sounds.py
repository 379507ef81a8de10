"""Everyone's sound into a batch, and out of it.

It comes and goes as 16-bit samples, and the batch has floats. Many rows are done at once, and where
they lie is kept: a call for each caller costs several times as much, and so do rows that are too
many for the processor's cache. NumPy lets go of the interpreter's lock at each array that is not
small, and the event loop, where it has much to do, gives it back after 5 ms only: so pieces are not
put together by NumPy.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from engine.audio.pcm import Int16, from_int16, to_int16
from engine.contract import Sound

if TYPE_CHECKING:
    from engine.duplex.loop import Batch


AT_ONCE = 64
"""Rows that are done at once, at most: half a megabyte of floats, of 80 ms at 24 kHz."""


class Sounds:
    """The sound of those who sit in ``batch``."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._pieces = BytesIO()
        self._in = np.empty_like(batch.pcm[:AT_ONCE])
        self._out = np.empty_like(batch.heard[:AT_ONCE])

    def hear(self, slots: list[int], pieces: list[Int16]) -> None:
        """Lets the batch hear ``pieces``, which are one frame for each of ``slots``, in a row; of
        :data:`AT_ONCE` at most.
        """
        rows, size = len(slots), self._in.shape[1]
        self._pieces.seek(0)
        self._pieces.writelines(cast("list[memoryview]", pieces))  # They are buffers, too.
        frames = np.frombuffer(self._pieces.getbuffer(), np.int16, rows * size)
        self._batch.pcm[slots] = from_int16(frames.reshape(rows, size), out=self._in[:rows])

    def say(self, slots: list[int]) -> tuple[list[Sound], list[float]]:
        """What each of ``slots``, as many at most, says after a tick, and its root mean square.

        A frame that is not a number stays as it is, for whoever checks that.
        """
        said = self._out[: len(slots)]
        np.take(self._batch.heard, np.array(slots, np.intp), axis=0, out=said, mode="clip")
        levels = rms(said)
        broken = np.flatnonzero(~np.isfinite(levels)).tolist()
        said[broken] = 0.0
        sounds: list[Sound] = list(to_int16(said, scaled=said))
        for row in broken:
            sounds[row] = self._batch.heard[slots[row]].copy()
        return sounds, levels.tolist()


def rms(sound: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The root mean square of each row."""
    mean: npt.NDArray[np.float32] = np.einsum("ij,ij->i", sound, sound) / sound.shape[1]
    return np.sqrt(mean)
