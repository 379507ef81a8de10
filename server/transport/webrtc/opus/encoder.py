"""One stream of mono sound becomes Opus packets."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.contract import Samples
from server.transport.webrtc.opus.library import OpusError, library

Mode = Literal["lowdelay", "voip"]

_APPLICATIONS = {"voip": 2048, "lowdelay": 2051}
_BITRATE, _COMPLEXITY, _FEC, _LOSS, _DTX = 4002, 4010, 4012, 4014, 4016
_LOOKAHEAD = 4027
_LONGEST = 0.06
"""Seconds of the longest frame that is coded (``opus_encode_float``)."""
_ROOM = 1_275
"""Bytes of the longest frame there is (RFC 6716 section 3.2.1)."""


@dataclass(frozen=True, slots=True)
class Controls:
    """How sound is coded.

    ``lowdelay`` looks 2.5 ms ahead and is the cheapest by far; ``voip`` looks 6.5 ms ahead, sounds
    better below 24 kbit/s, and alone can repeat what was lost (``fec``). ``bitrate`` is in bit/s,
    ``complexity`` from 0 to 10. With ``dtx``, sound that holds nothing is a packet of a byte or two
    that need not be sent.
    """

    mode: Mode = "lowdelay"
    bitrate: int = 32_000
    complexity: int = 5
    dtx: bool = False
    fec: bool = False


class OpusEncoder:
    """Codes mono sound at ``rate`` Hz, one of :data:`server.transport.webrtc.opus.RATES`.

    Raises:
        OpusError: the rate or a control is refused; the message names it.
        LibraryMissing: there is no libopus (``path`` is that of one to take).
    """

    def __init__(self, rate: int, controls: Controls, path: str = "") -> None:
        self._state: int | None = None
        self._library = library(path)
        error = ctypes.c_int()
        application = _APPLICATIONS[controls.mode]
        self._state = self._library.opus_encoder_create(rate, 1, application, ctypes.byref(error))
        if error.value:
            raise OpusError(f"libopus: error {error.value} for {rate} Hz")
        self._set("bitrate", _BITRATE, controls.bitrate)
        self._set("complexity", _COMPLEXITY, controls.complexity)
        self._set("dtx", _DTX, controls.dtx)
        self._set("fec", _FEC, controls.fec)
        self._pcm = np.zeros(round(_LONGEST * rate), np.float32)
        self._sound = self._pcm.ctypes.data
        self._packet = ctypes.create_string_buffer(_ROOM)

    @property
    def lookahead(self) -> int:
        """Samples by which what is decoded is later than what was coded."""
        samples = ctypes.c_int32()
        self._library.opus_encoder_ctl(self._open(), _LOOKAHEAD, ctypes.byref(samples))
        return samples.value

    def encode(self, pcm: Samples) -> bytes:
        """The packet of ``pcm``: 2.5, 5, 10, 20, 40 or 60 ms.

        Raises:
            OpusError: it is of another length.
        """
        state, samples = self._open(), len(pcm)
        if samples > len(self._pcm):
            raise OpusError(f"pcm: expected at most {len(self._pcm)} samples, got {samples}")
        self._pcm[:samples] = pcm
        size = self._library.opus_encode_float(state, self._sound, samples, self._packet, _ROOM)
        if size < 0:
            raise OpusError(f"libopus: error {size} for {samples} samples")
        return ctypes.string_at(self._packet, size)

    def expect_loss(self, percent: int) -> None:
        """Prepares for so much of it to be lost: what is repeated with ``fec`` depends on that."""
        self._set("loss", _LOSS, percent)

    def close(self) -> None:
        """Frees the encoder; safe to call twice."""
        state, self._state = self._state, None
        if state is not None:
            self._library.opus_encoder_destroy(state)

    def __del__(self) -> None:
        self.close()

    def _open(self) -> int:
        if self._state is None:
            raise OpusError("the encoder is closed")
        return self._state

    def _set(self, name: str, request: int, value: int) -> None:
        state = self._open()
        if self._library.opus_encoder_ctl(state, request, ctypes.c_int(value)):
            raise OpusError(f"{name}: libopus takes no {value}")
