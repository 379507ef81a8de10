"""Opus decoding by libopus itself: straight to an engine's rate, with concealment and FEC.

PyAV decodes at 48 kHz and hides what a receiver needs most, so the library is called directly
(``opus.h``): the system's where there is one, else the one that PyAV carries. A call takes 50 us
and starts no thread.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import av
import numpy as np

from engine.contract import Samples

RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
"""Hz that it decodes to."""
_SYSTEM = ("libopus.so.0", "libopus.0.dylib")
_LONGEST = 0.12
"""Seconds of the longest packet there is (RFC 6716 section 3.2.5)."""


class OpusError(Exception):
    """A packet that is no Opus."""


class OpusDecoder:
    """Decodes one stream to mono at ``rate``, one of :data:`RATES`."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        error = ctypes.c_int()
        self._library = _library()
        self._state = self._library.opus_decoder_create(rate, 1, ctypes.byref(error))
        if error.value:
            raise OpusError(f"libopus: error {error.value} for {rate} Hz")
        self._pcm = np.zeros(round(_LONGEST * rate), np.float32)

    def decode(self, packet: bytes) -> Samples:
        """The packet's sound.

        Raises:
            OpusError: it is none.
        """
        return self._decode(packet, len(self._pcm), fec=False)

    def recover(self, packet: bytes, samples: int) -> Samples:
        """The last ``samples`` before ``packet``, from what it repeats of them; else made up."""
        return self._decode(packet, samples, fec=True)

    def conceal(self, samples: int) -> Samples:
        """Makes up ``samples``, a multiple of 2.5 ms, that were lost."""
        return self._decode(None, samples, fec=False)

    def close(self) -> None:
        """Frees the decoder; safe to call twice."""
        state, self._state = self._state, None
        if state is not None:
            self._library.opus_decoder_destroy(state)

    def __del__(self) -> None:
        self.close()

    def _decode(self, packet: bytes | None, samples: int, *, fec: bool) -> Samples:
        if self._state is None:
            raise OpusError("the decoder is closed")
        pcm = self._pcm.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        length = 0 if packet is None else len(packet)
        made = self._library.opus_decode_float(self._state, packet, length, pcm, samples, fec)
        if made < 0:
            raise OpusError(f"libopus: error {made}")
        return self._pcm[:made].copy()


def _loaded(name: str) -> ctypes.CDLL | None:
    """The library of that name; looking it up any other way starts a process."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


@cache
def _library() -> ctypes.CDLL:
    carried = (Path(av.__file__).parent.parent / "av.libs").glob("libopus*")
    library = next(filter(None, map(_loaded, [*_SYSTEM, *map(str, carried)])), None)
    if library is None:
        raise OSError("libopus is missing (on Debian: apt install libopus0)")
    library.opus_decoder_create.restype = ctypes.c_void_p
    library.opus_decoder_destroy.argtypes = [ctypes.c_void_p]
    library.opus_decode_float.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_float),
        ctypes.c_int,
        ctypes.c_int,
    ]
    return library
