"""A resampler for streams: any split of the same sound gives the same samples, bit for bit.

A polyphase FIR filter, a Kaiser-windowed sinc, flat to 0.8 of the lower Nyquist frequency and at
least 75 dB down from 1.2 of it, so that nothing folds into the flat band. Between the two lies the
slope: a sharper one would double the delay, which is 13 samples of the lower rate (0.8 ms at
16 kHz).

Each output is a sum of its own, its terms in one order. A matrix product would be a little faster,
but BLAS picks its order of summing by shape, and the last bit of a sample would depend on how sound
was cut into packets.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from engine.contract import Samples

_HALF = 13
"""Samples of the lower rate on either side of the filter's centre."""
_BETA = 8.0
"""Of the Kaiser window: about 80 dB."""
_FEW = 8
"""Phases up to which each is summed by itself: every ``up``-th output lies in the same one."""
_BLOCK = 4096
"""Input samples computed at once: bounds the working memory of a long push."""


class Resampler:
    """Turns mono sound at ``source`` Hz into sound at ``target`` Hz.

    After ``n`` samples in, exactly ``ceil(n * target / source)`` are out, at every moment; their
    sound is ``delay`` source samples late. ``flush`` gives out what is still inside, which makes
    ``ceil((n + delay) * target / source)`` in all. Equal rates pass through, without delay.

    Raises:
        ValueError: a rate is not positive.
    """

    def __init__(self, source: int, target: int) -> None:
        if source < 1 or target < 1:
            raise ValueError(f"rates: expected at least 1 Hz, got {source} and {target}")
        shared = math.gcd(source, target)
        self._up, self._down = target // shared, source // shared
        self.delay = 0
        if self._up != self._down:
            self.delay = math.ceil(_HALF * max(1.0, source / target))
            self._phases = _phases(self._up, self._down, self.delay)
        self._restart()

    def push(self, pcm: Samples) -> Samples:
        """The output that ``pcm`` (any number of source samples) completes."""
        if not self.delay:
            return pcm
        blocks = [self._block(pcm[at : at + _BLOCK]) for at in range(0, len(pcm), _BLOCK)]
        return blocks[0] if len(blocks) == 1 else np.concatenate([_NOTHING, *blocks])

    def flush(self) -> Samples:
        """The sound that is still inside; afterwards the resampler is as new."""
        tail = self.push(np.zeros(self.delay, np.float32))
        self._restart()
        return tail

    def _restart(self) -> None:
        self._past = np.zeros(2 * self.delay, np.float32)
        self._next = 0
        """Where the next output lies, in steps of 1/up source samples from the next input."""

    def _block(self, pcm: Samples) -> Samples:
        sound = np.concatenate([self._past, pcm])
        self._past = sound[len(pcm) :]
        steps = np.arange(self._next, len(pcm) * self._up, self._down)
        self._next += len(steps) * self._down - len(pcm) * self._up
        if self._up > _FEW:
            windows = _windows(sound, len(pcm), self._phases.shape[1], 1)[steps // self._up]
            return np.asarray(np.einsum("ij,ij->i", windows, self._phases[steps % self._up]))
        out = np.empty(len(steps), np.float32)
        for first, step in enumerate(steps[: self._up].tolist()):
            phase, turn = self._phases[step % self._up], out[first :: self._up]
            windows = _windows(sound[step // self._up :], len(turn), len(phase), self._down)
            np.einsum("ij,j->i", windows, phase, out=turn)
        return out


def _windows(sound: Samples, count: int, width: int, apart: int) -> Samples:
    """A view of ``count`` stretches of ``sound``, ``width`` long and ``apart`` samples apart."""
    return np.ndarray((count, width), np.float32, sound, strides=(4 * apart, 4))


_NOTHING: Samples = np.zeros(0, np.float32)


def _phases(up: int, down: int, delay: int) -> npt.NDArray[np.float32]:
    """The filter's ``up`` phases, a row each, reversed to lie along a window of the input."""
    at = np.arange(2 * delay * up + up) - delay * up
    lower = 1.0 / max(up, down)
    inside = np.clip(1.0 - (at / (delay * up)) ** 2, 0.0, None)
    taps = np.sinc(at * lower) * np.i0(_BETA * np.sqrt(inside)) * (inside > 0.0)
    phases = taps.reshape(-1, up).T[:, ::-1]
    phases = phases / phases.sum(axis=1, keepdims=True)
    return np.ascontiguousarray(phases, np.float32)
