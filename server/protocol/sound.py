"""Sound on the wire: how it is coded there, and the rates of an engine.

Both directions keep their resampler from one event to the next, so where a client or an engine cuts
its sound is never heard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from engine.audio import pcm
from engine.audio.resample import Resampler
from engine.contract import Samples, Sound


class Coding(NamedTuple):
    """Mono sound of ``rate`` Hz: 16-bit little-endian, or G.711."""

    law: Literal["pcm", "pcmu", "pcma"] = "pcm"
    rate: int = 24_000


_SHORT = 8_000
"""Bytes that are heard without more ado where there is room: a second of G.711."""
_AT_ONCE = 1.0
"""Seconds that are decoded in one step: a few milliseconds of a loop that carries every call."""
_WIDTH = {"pcm": 2, "pcmu": 1, "pcma": 1}
_FROM: dict[str, Callable[[bytes | memoryview], Samples]] = {
    "pcm": pcm.from_pcm16,
    "pcmu": pcm.from_pcmu,
    "pcma": pcm.from_pcma,
}
_TO: dict[str, Callable[[Samples], bytes]] = {
    "pcm": pcm.to_pcm16,
    "pcmu": pcm.to_pcmu,
    "pcma": pcm.to_pcma,
}


Decode: TypeAlias = Callable[[bytes | memoryview], Sound]


def input_decoder(coding: Coding, rate: int) -> Decode:
    """Decodes whole samples of ``coding``: each time the sound, at ``rate`` Hz, that they
    complete.
    """
    if coding == Coding("pcm", rate):
        return _as_it_is
    decode, resampler = _FROM[coding.law], Resampler(coding.rate, rate)
    return lambda data: resampler.push(decode(data))


def _as_it_is(data: bytes | memoryview) -> Sound:
    return np.frombuffer(data, pcm.PCM16)


class OutputEncoder:
    """Samples at the engine's ``rate`` (Hz) to bytes of one coding."""

    __slots__ = ("_encode", "_resampler", "push")

    def __init__(self, coding: Coding, rate: int) -> None:
        self._encode = _TO[coding.law]
        self._resampler = Resampler(rate, coding.rate)
        self.push = pcm.to_pcm16 if coding == Coding("pcm", rate) else self._resampled
        """The bytes of the next sound."""

    def flush(self) -> bytes:
        """The end of the sound, which the resampler still holds."""
        return self._encode(self._resampler.flush())

    def _resampled(self, sound: Sound) -> bytes:
        return self._encode(self._resampler.push(pcm.floats(sound)))


class _Hearing(Protocol):
    @property
    def room(self) -> int: ...

    def hear(self, pcm: Sound) -> int: ...


class InputBuffer:
    """The caller's sound on its way to the engine, which need not have room for all at once.

    Args:
        session: hears it.
        coding: of what comes in.
        rate: Hz, of what is heard.
    """

    __slots__ = (
        "_coding", "_decode", "_rate", "_room", "_session", "_step", "_swell", "_unheard", "_width",
        "behind", "heard",
    )  # fmt: skip

    def __init__(self, session: _Hearing, coding: Coding, rate: int) -> None:
        self._session = session
        self._rate = rate
        self._step = int(_AT_ONCE * rate)
        self._room = 0  # when it was heard last; there may be more now
        self._unheard: bytes | memoryview = b""
        self.heard = 0
        """Samples that were heard since somebody set it back."""
        self.behind = False
        """Whether sound waits to be heard."""
        self.coding = coding

    @property
    def coding(self) -> Coding:
        """Of what comes in from now on; setting it, even to the same, begins a new sound.

        Nothing waits to be heard then: no event is taken before all sound behind it was heard.
        """
        return self._coding

    @coding.setter
    def coding(self, coding: Coding) -> None:
        self._coding = coding
        self._width = _WIDTH[coding.law]
        self._decode = input_decoder(coding, self._rate)
        self._swell = -(-self._rate // (coding.rate * self._width))  # samples of a byte, at most

    def append(self, data: bytes) -> bool:
        """Takes more sound; False: it ends within a sample, and was not taken."""
        size = len(data)
        if size % self._width:
            return False
        if not self.behind and 0 < size * self._swell <= self._room and size <= _SHORT:
            self._hear(data)
        else:
            self._unheard = bytes(self._unheard) + data if self.behind else data
            self.pump()
        return True

    def _hear(self, piece: bytes | memoryview) -> None:
        sound = self._decode(piece)
        self.heard += len(sound)
        self._room = self._session.hear(sound)

    def clear(self) -> None:
        """Forgets what was not heard yet."""
        self._unheard, self.behind = b"", False
        self.coding = self._coding

    def pump(self) -> bool:
        """Lets the engine hear what it has room for, a step of it; True once it heard all."""
        piece, self._unheard = self._unheard, b""
        samples = -(-len(piece) // self._width * self._rate // self._coding.rate)
        if samples > min(self._room, self._step):
            room = min(self._session.room, self._step)
            fits = room * self._coding.rate // self._rate * self._width
            piece, self._unheard = piece[:fits], memoryview(piece)[fits:]
        if piece:
            self._hear(piece)
        self.behind = len(self._unheard) > 0
        return not self.behind
