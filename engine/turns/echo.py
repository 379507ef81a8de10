"""Whose voice is in the microphone: the caller's, or the reply coming back?

A page on loudspeakers without echo cancellation returns the reply, usually 20 dB down and 40 to
300 ms late. A detector of speech cannot tell that from a caller. This guard can: it knows what was
handed out and how far it was played, so it knows how loud an echo could be at this moment, and lets
only sound pass that is louder.

The level to expect is the loudest of the reference around the moment (players lag and reports of
what was played come every 100 ms or so, so the moment is a window) times the gain of the echo's
path. The gain starts at a guess, falls while the microphone stays quieter than it predicts (a
caller on headphones ends up with no guard at all), and rises where the microphone is seen to
follow the reference. It decides by level alone and never touches the sound.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from engine.contract import Samples

PRIOR = -14.0
"""dB, of the path before anything is known: an open laptop without echo cancellation."""
MARGIN = 5.0
"""dB, above the expected echo from which sound is the caller's."""

_FRAME = 0.02
"""Seconds, of the reference's envelope."""
_AHEAD = 0.15
"""Seconds that playback may be ahead of what its reports let us think."""
_UNREPORTED = 0.25
"""Seconds that playback is believed to go on without a report."""
_BEHIND = 0.6
"""Seconds that an echo may be late: 300 ms of path, 300 of a player's buffer on a busy machine."""
_QUIET = -55.0
"""dBFS, of a reference too soft to be heard back."""
_LOUD = -35.0
"""dBFS, of a reference that something can be learned from; below it noise fills the microphone."""
_FLOOR = -50.0
_FALL = 1.0
_RISE = 1.0
_CREEP = 0.25
"""dB a chunk: where the microphone is quieter, follows the reference, or only fits the estimate."""
_PEAK = 45
"""Chunks (1.4 s) whose loudest ratio is the gain as seen: longer than the lag at a reply's ends."""
_PEAK_MINIMUM = 16
_FOLLOWED = 48
"""Chunks (1.5 s) over which the microphone must follow the reference."""
_LAGS = 14
_REPLIES = 8
"""The newest replies; older ones have sounded long ago."""
_ALIKE = 0.8
"""Correlation of the two envelopes from which one follows the other."""


def level(pcm: Samples) -> float:
    """The RMS level of ``pcm`` in dBFS; digital silence is -120."""
    power = float(np.dot(pcm, pcm)) / len(pcm)
    return float(10 * np.log10(max(power, 1e-12)))


@dataclass(slots=True)
class _Reference:
    """One reply as it goes out: its envelope, and how far it was played at which input sample."""

    envelope: list[float] = field(default_factory=list)
    rest: Samples = field(default_factory=lambda: np.zeros(0, np.float32))
    played: int = 0
    reported: int = 0


class EchoGuard:
    """Tells one caller's voice from the echo of the replies it is sent.

    Args:
        input_rate, output_rate: Hz, of the caller's sound and of the replies'.
    """

    def __init__(self, input_rate: int, output_rate: int) -> None:
        self._input_rate = input_rate
        self._output_rate = output_rate
        self._references: dict[str, _Reference] = {}
        self._gain = PRIOR
        self._ratios: deque[float] = deque(maxlen=_PEAK)
        self._microphone: deque[float] = deque(maxlen=_FOLLOWED)
        self._sent: deque[float] = deque(maxlen=_FOLLOWED + _LAGS)

    @property
    def gain(self) -> float:
        """dB, of the echo's path as estimated."""
        return self._gain

    def handed_out(self, reply: str, pcm: Samples, at: int) -> None:
        """``pcm`` of ``reply`` left for the caller at input sample ``at``."""
        reference = self._references.setdefault(reply, _Reference(reported=at))
        while len(self._references) > _REPLIES:
            del self._references[next(iter(self._references))]
        frame = int(_FRAME * self._output_rate)
        pcm = np.concatenate([reference.rest, pcm])
        whole = len(pcm) // frame * frame
        reference.rest = pcm[whole:]
        reference.envelope += [level(piece) for piece in pcm[:whole].reshape(-1, frame)]

    def played(self, reply: str, samples: int, at: int) -> None:
        """``samples`` of ``reply`` were played by input sample ``at``.

        Replies sound one after another: once this one has for a while, no other comes back any
        more. A caller who sends sound only to speak would find them all in the air.
        """
        reference = self._references.get(reply)
        if reference is not None:
            reference.played, reference.reported = samples, at
            if samples > _BEHIND * self._output_rate:
                while next(iter(self._references)) != reply:
                    del self._references[next(iter(self._references))]

    def stopped(self, reply: str) -> None:
        """``reply`` was cut: what is not played by now never will be."""
        reference = self._references.get(reply)
        if reference is not None:
            frames = (reference.played / self._output_rate + _UNREPORTED + _AHEAD) / _FRAME
            del reference.envelope[int(frames) :]

    def speaking(self, at: int) -> bool:
        """Whether a reply is being heard at input sample ``at``."""
        return self._expected(at) > _QUIET

    def passes(self, pcm: Samples, at: int) -> bool:
        """Whether the chunk ``pcm``, which begins at ``at``, may be the caller's. Chunks in
        order.
        """
        expected = self._expected(at)
        heard = level(pcm)
        self._microphone.append(heard)
        self._sent.append(self._momentary(at))
        if expected <= _QUIET:
            return True
        ratio = heard - expected
        passes = ratio > self._gain + MARGIN
        if expected > _LOUD:
            self._learn(ratio, passes)
        return passes

    def _learn(self, ratio: float, passes: bool) -> None:
        self._ratios.append(ratio)
        if ratio > self._gain:
            if self._follows():
                self._gain = min(ratio, self._gain + _RISE)
            elif not passes:
                self._gain = min(ratio, self._gain + _CREEP)
        elif len(self._ratios) >= _PEAK_MINIMUM:
            seen = max(_FLOOR, max(self._ratios))  # of a caller too, who says nothing of the path
            self._gain = min(self._gain, max(seen, self._gain - _FALL))

    def _follows(self) -> bool:
        """Whether the microphone's envelope is the reference's, some chunks late."""
        if len(self._microphone) < _FOLLOWED or len(self._sent) < _FOLLOWED + _LAGS:
            return False
        heard = _amplitude(self._microphone)
        sent = _amplitude(self._sent)
        lagged = np.lib.stride_tricks.sliding_window_view(sent, _FOLLOWED)
        heard = heard - heard.mean()
        lagged = lagged - lagged.mean(axis=1, keepdims=True)
        norms = np.sqrt((lagged**2).sum(axis=1) * (heard**2).sum()) + 1e-12
        return bool(np.max(lagged @ heard / norms) > _ALIKE)

    def _expected(self, at: int) -> float:
        """dBFS: the loudest of what may be coming back at ``at``."""
        loudest = -120.0
        for reference in self._references.values():
            window = islice(reference.envelope, *self._window(reference, at))
            loudest = max(loudest, max(window, default=loudest))
        return loudest

    def _window(self, reference: _Reference, at: int) -> tuple[int, int]:
        played = reference.played / self._output_rate
        elapsed = max(0, at - reference.reported) / self._input_rate
        first = max(0, int((played + elapsed - _BEHIND) / _FRAME))
        return first, max(first, int((played + min(elapsed, _UNREPORTED) + _AHEAD) / _FRAME))

    def _momentary(self, at: int) -> float:
        """dBFS: what is being played now, as far as is known."""
        loudest = -120.0
        for reference in self._references.values():
            _, last = self._window(reference, at)
            now = max(0, last - int(_AHEAD / _FRAME) - 1)
            window = islice(reference.envelope, now, now + 2)
            loudest = max(loudest, max(window, default=loudest))
        return loudest


def _amplitude(levels: deque[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(10.0 ** (np.asarray(levels) / 20))
