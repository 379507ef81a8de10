"""Whether what a caller said came back, and how much later: told by the sound itself. Pure.

All that a caller heard is decoded. Every fifth of a second of loud speech that was said is looked
for, by correlation, in what came soon after it was sent, sooner than another caller's same words
could. Each frame of it found tells a delay: from sending the packet that brought it to the coming
of the packet that holds it. Codecs shift sound by 5 to 13 ms more, which is less than a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.audio.pcm import floats
from engine.contract import Samples
from server.bench.webrtc.speech import FRAME, PLAIN, RATE, Speech, comparable
from server.transport.webrtc.opus import OpusDecoder

ALIKE = 0.7
"""Correlation from which two sounds are the same."""
LATEST = 0.3
"""Seconds; what comes back later counts as lost."""
STRETCH = 10
"""Frames that are looked for at once."""
_LOUD = 0.01
"""Root mean square of a stretch that is worth looking for."""
_PAUSE = 0.3
"""Seconds from one timestamp to the next, from which nothing was sent in between on purpose."""
_FRAME = FRAME * PLAIN // RATE
_STEP = RATE // PLAIN


class Said(NamedTuple):
    """Frame ``number`` of a script was sent at ``at`` (ns)."""

    at: int
    number: int


class Came(NamedTuple):
    """A packet of sound came at ``at`` (ns)."""

    at: int
    timestamp: int
    payload: bytes


class Found(NamedTuple):
    """Of ``stretches`` said, ``alike`` came back; seconds of delay of each frame of those, and how
    far each gap between two packets was from the first one's length.
    """

    stretches: int
    alike: int
    delays: list[float]
    jitter: list[float]


class _Heard:
    """What came, as one piece of sound on the sender's own time."""

    def __init__(self, came: Sequence[Came]) -> None:
        decoder = OpusDecoder(PLAIN)
        first = came[0].timestamp
        decoded = [floats(decoder.decode(packet.payload)) for packet in came]
        decoder.close()
        self.at: npt.NDArray[np.int64] = np.array([packet.at for packet in came])
        self.starts: npt.NDArray[np.int64] = np.array(
            [((packet.timestamp - first) & 0xFFFF_FFFF) // _STEP for packet in came]
        )
        self.lengths = np.array([len(pcm) for pcm in decoded])
        self.pcm = np.zeros(int(max(self.starts + self.lengths)), np.float32)
        for start, pcm in zip(self.starts.tolist(), decoded, strict=True):
            self.pcm[start : start + len(pcm)] = pcm
        self.pcm = comparable(self.pcm)

    def between(self, begin: int, end: int) -> tuple[int, int]:
        """The samples of the packets that came from ``begin`` to ``end`` (ns)."""
        first, last = np.searchsorted(self.at, (begin, end))
        if first == last:
            return 0, 0
        return int(self.starts[first]), int(self.starts[last - 1] + self.lengths[last - 1])

    def came(self, sample: int) -> int:
        """When the packet that holds ``sample`` came."""
        return int(self.at[np.searchsorted(self.starts, sample, "right") - 1])

    def jitter(self) -> list[float]:
        gaps = np.diff(self.at) / 1e9
        steps = np.diff(self.starts) / PLAIN
        off = np.abs(gaps - self.lengths[:-1] / PLAIN)
        return [float(each) for each in off[steps < _PAUSE]]


def found(script: Speech, said: Sequence[Said], came: Sequence[Came], latest: float) -> Found:
    """Looks for what was ``said`` of ``script`` in what ``came``, at most ``latest`` s later; but
    not for what was said last, which had no time to come back.
    """
    heard = _Heard(came) if came else None
    stretches = alike = 0
    delays: list[float] = []
    for at in range(0, len(said) - STRETCH + 1, STRETCH):
        stretch = said[at : at + STRETCH]
        if stretch[-1].at + round(latest * 1e9) > said[-1].at:
            break
        begin = stretch[0].number
        sound = script.plain[begin * _FRAME : (begin + STRETCH) * _FRAME]
        if stretch[-1].number - begin != STRETCH - 1 or float(np.std(sound)) < _LOUD:
            continue
        stretches += 1
        if heard is None:
            continue
        ends = stretch[-1].at + round(latest * 1e9)
        first, end = heard.between(stretch[0].at, ends)
        lag, likeness = alignment(sound, heard.pcm[first:end])
        if likeness >= ALIKE:
            alike += 1
            begins = range(first + lag, first + lag + STRETCH * _FRAME, _FRAME)
            pairs = zip(begins, stretch, strict=True)
            delays += [(heard.came(sample) - frame.at) / 1e9 for sample, frame in pairs]
    return Found(stretches, alike, delays, heard.jitter() if heard is not None else [])


def alignment(sound: Samples, within: Samples) -> tuple[int, float]:
    """Where in ``within`` the ``sound`` is most likely, and their correlation there, -1 to 1."""
    room = len(within) - len(sound) + 1
    if room < 1:
        return 0, 0.0
    size = 1 << (len(within) + len(sound)).bit_length()
    product = np.fft.rfft(within, size) * np.conj(np.fft.rfft(sound, size))
    across = np.fft.irfft(product, size)[:room]
    power = np.concatenate(([0.0], np.cumsum(np.square(within, dtype=np.float64))))
    energy = (power[len(sound) :] - power[: -len(sound)]) * float(np.dot(sound, sound))
    likeness = across / np.sqrt(np.maximum(energy, 1e-12))
    lag = int(np.argmax(likeness))
    return lag, float(likeness[lag])
