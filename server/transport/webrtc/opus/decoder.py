"""A stream of Opus packets becomes mono sound, of 16-bit samples: so it goes on to the engine."""

from __future__ import annotations

import ctypes

import numpy as np

from engine.contract import Sound
from server.transport.webrtc.opus.library import OpusError, library

_LONGEST = 0.12
"""Seconds of the longest packet there is (RFC 6716 section 3.2.5)."""


class OpusDecoder:
    """Decodes one stream to mono at ``rate``, one of :data:`RATES`.

    Raises:
        OpusError: it is another rate.
        LibraryMissing: there is no libopus (``path`` is that of one to take).
    """

    def __init__(self, rate: int, path: str = "") -> None:
        self.rate = rate
        self._state: int | None = None
        self._library = library(path)
        error = ctypes.c_int()
        self._state = self._library.opus_decoder_create(rate, 1, ctypes.byref(error))
        if error.value:
            raise OpusError(f"libopus: error {error.value} for {rate} Hz")
        self._pcm = np.zeros(round(_LONGEST * rate), np.int16)
        self._sound = self._pcm.ctypes.data

    def decode(self, packet: bytes) -> Sound:
        """The packet's sound.

        Raises:
            OpusError: it is none.
        """
        return self._decode(packet, len(self._pcm), fec=False)

    def recover(self, packet: bytes, samples: int) -> Sound:
        """The last ``samples`` before ``packet``, from what it repeats of them; else made up."""
        return self._decode(packet, samples, fec=True)

    def conceal(self, samples: int) -> Sound:
        """Makes up ``samples``, a multiple of 2.5 ms, that were lost."""
        return self._decode(None, samples, fec=False)

    def close(self) -> None:
        """Frees the decoder; safe to call twice."""
        state, self._state = self._state, None
        if state is not None:
            self._library.opus_decoder_destroy(state)

    def __del__(self) -> None:
        self.close()

    def _decode(self, packet: bytes | None, samples: int, *, fec: bool) -> Sound:
        state, length = self._state, 0 if packet is None else len(packet)
        if state is None:
            raise OpusError("the decoder is closed")
        made = self._library.opus_decode(state, packet, length, self._sound, samples, fec)
        if made < 0:
            raise OpusError(f"libopus: error {made}")
        return self._pcm[:made].copy()
