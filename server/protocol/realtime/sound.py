"""Sound on the wire: the API's three formats, and the rates of an engine.

Both directions keep their resampler from one event to the next, so where a client or an engine cuts
its sound is never heard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from engine.audio import pcm
from engine.audio.resample import Resampler
from engine.contract import Samples
from server.protocol.realtime.session_object import Format, Pcm, Pcma, Pcmu

_RATE = {Pcm: 24_000, Pcmu: 8_000, Pcma: 8_000}
_FROM: dict[type[Format], Callable[[bytes], Samples]] = {
    Pcm: pcm.from_pcm16,
    Pcmu: pcm.from_pcmu,
    Pcma: pcm.from_pcma,
}
_TO: dict[type[Format], Callable[[Samples], bytes]] = {
    Pcm: pcm.to_pcm16,
    Pcmu: pcm.to_pcmu,
    Pcma: pcm.to_pcma,
}


class InputDecoder:
    """Bytes of one format to samples at the engine's ``rate`` (Hz)."""

    def __init__(self, format: Format, rate: int) -> None:
        self._decode = _FROM[type(format)]
        self._resampler = Resampler(_RATE[type(format)], rate)

    def push(self, data: bytes) -> Samples:
        """The samples that ``data`` completes.

        Raises:
            ValueError: ``data`` ends within a sample; nothing was taken.
        """
        return self._resampler.push(self._decode(data))


class OutputEncoder:
    """Samples at the engine's ``rate`` (Hz) to bytes of one format."""

    def __init__(self, format: Format, rate: int) -> None:
        self._encode = _TO[type(format)]
        self._resampler = Resampler(rate, _RATE[type(format)])

    def push(self, samples: Samples) -> bytes:
        return self._encode(self._resampler.push(samples))

    def flush(self) -> bytes:
        """The end of the sound, which the resampler still holds."""
        return self._encode(self._resampler.flush())


class _Hearing(Protocol):
    @property
    def room(self) -> int: ...

    def hear(self, pcm: Samples) -> int: ...


class InputBuffer:
    """The caller's sound on its way to the engine, which need not have room for all at once.

    Args:
        session: hears it.
        format: of what comes in.
        rate: Hz, of what is heard.
    """

    def __init__(self, session: _Hearing, format: Format, rate: int) -> None:
        self._session = session
        self._rate = rate
        self._unheard: Samples = np.zeros(0, np.float32)
        self.format = format

    @property
    def format(self) -> Format:
        """Of what comes in from now on; setting it, even to the same, begins a new sound."""
        return self._format

    @format.setter
    def format(self, format: Format) -> None:
        self._format = format
        self._decoder = InputDecoder(format, self._rate)

    def append(self, data: bytes) -> None:
        """Takes more sound.

        Raises:
            ValueError: ``data`` ends within a sample; nothing was taken.
        """
        self._unheard = np.concatenate([self._unheard, self._decoder.push(data)])
        self.pump()

    def clear(self) -> None:
        """Forgets what was not heard yet."""
        self._unheard = self._unheard[:0]
        self.format = self._format

    def pump(self) -> bool:
        """Lets the engine hear as much as it has room for; True once it heard all."""
        room = self._session.room
        if len(self._unheard) and room > 0:
            self._session.hear(self._unheard[:room])
            self._unheard = self._unheard[room:]
        return not len(self._unheard)
