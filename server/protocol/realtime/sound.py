"""Sound on the wire: the API's three formats, and the rates of an engine.

Both directions keep their resampler from one event to the next, so where a client or an engine cuts
its sound is never heard.
"""

from __future__ import annotations

from collections.abc import Callable

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
