"""Sound on the wire: how it is coded there, and the rates of an engine.

Both directions keep their resampler from one event to the next, so where a client or an engine cuts
its sound is never heard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import numpy as np

from engine.audio import pcm
from engine.audio.resample import Resampler
from engine.contract import Samples, Sound


class Coding(NamedTuple):
    """Mono sound of ``rate`` Hz: 16-bit little-endian, or G.711."""

    law: Literal["pcm", "pcmu", "pcma"] = "pcm"
    rate: int = 24_000


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


class InputDecoder:
    """Bytes of one coding to samples at the engine's ``rate`` (Hz)."""

    def __init__(self, coding: Coding, rate: int) -> None:
        self._decode = _FROM[coding.law]
        self._resampler = Resampler(coding.rate, rate)
        self._width = _WIDTH[coding.law]
        self._plain = coding == Coding("pcm", rate)
        self._rate, self._source = rate, coding.rate

    def check(self, data: bytes) -> None:
        """Lets whole samples pass.

        Raises:
            ValueError: ``data`` ends within one.
        """
        if len(data) % self._width:
            raise ValueError(f"audio: expected whole samples, got {len(data)} bytes")

    def length(self, samples: int) -> int:
        """Bytes that make at most ``samples``."""
        return samples * self._source // self._rate * self._width

    def push(self, data: bytes | memoryview) -> Sound:
        """The sound that ``data``, whole samples, completes."""
        if self._plain:
            return np.frombuffer(data, "<i2")
        return self._resampler.push(self._decode(data))


class OutputEncoder:
    """Samples at the engine's ``rate`` (Hz) to bytes of one coding."""

    def __init__(self, coding: Coding, rate: int) -> None:
        self._encode = _TO[coding.law]
        self._resampler = Resampler(rate, coding.rate)
        self._plain = coding == Coding("pcm", rate)

    def push(self, sound: Sound) -> bytes:
        if self._plain:
            return pcm.to_pcm16(sound)
        return self._encode(self._resampler.push(pcm.floats(sound)))

    def flush(self) -> bytes:
        """The end of the sound, which the resampler still holds."""
        return self._encode(self._resampler.flush())


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

    def __init__(self, session: _Hearing, coding: Coding, rate: int) -> None:
        self._session = session
        self._rate = rate
        self._unheard = memoryview(b"")
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
        self._decoder = InputDecoder(coding, self._rate)

    def append(self, data: bytes) -> None:
        """Takes more sound.

        Raises:
            ValueError: ``data`` ends within a sample; nothing was taken.
        """
        self._decoder.check(data)
        self._unheard = memoryview(bytes(self._unheard) + data if self._unheard else data)
        self.pump()

    def clear(self) -> None:
        """Forgets what was not heard yet."""
        self._unheard = self._unheard[:0]
        self.coding = self._coding

    def pump(self) -> bool:
        """Lets the engine hear what it has room for, a step of it; True once it heard all."""
        if self._unheard:
            room = min(self._session.room, int(_AT_ONCE * self._rate))
            step = self._decoder.length(room)
            piece, self._unheard = self._unheard[:step], self._unheard[step:]
            if piece:
                self._session.hear(self._decoder.push(piece))
        return not self._unheard
