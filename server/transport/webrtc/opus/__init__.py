"""Opus by libopus itself: what a call needs of it most, PyAV hides.

Sound is coded and decoded at an engine's own rate, on the event loop: a call takes 50 to 100 us and
starts no thread. A receiver gets concealment and forward error correction, a sender each of its
controls (``opus.h``).
"""

from server.transport.webrtc.opus.decoder import OpusDecoder
from server.transport.webrtc.opus.encoder import Controls, OpusEncoder
from server.transport.webrtc.opus.library import (
    CLOCK,
    EMPTY,
    RATES,
    LibraryMissing,
    OpusError,
    library,
)

__all__ = [
    "CLOCK",
    "EMPTY",
    "RATES",
    "Controls",
    "LibraryMissing",
    "OpusDecoder",
    "OpusEncoder",
    "OpusError",
    "library",
]
