"""Where libopus is, and how its functions are called.

An operator may name one; else it is the system's, else the one that PyAV carries.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import av

RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
"""Hz that sound is coded from, and decoded to."""
CLOCK = 48_000
"""Timestamps per second, at any rate (RFC 7587 section 4.1)."""
EMPTY = 2
"""Bytes of a packet that holds nothing and need not be sent, at most (DTX)."""
_SYSTEM = ("libopus.so.0", "libopus.0.dylib")


class OpusError(Exception):
    """What libopus refuses: a packet that is no Opus, a control that it does not have."""


class LibraryMissing(Exception):
    """There is no libopus; the message says what to do."""


@cache
def library(path: str = "") -> ctypes.CDLL:
    """libopus, its functions declared; ``path`` is that of a library to take instead.

    Raises:
        LibraryMissing: it is not there.
    """
    carried = (Path(av.__file__).parent.parent / "av.libs").glob("libopus*")
    names = [path] if path else [*_SYSTEM, *map(str, carried)]
    found = next(filter(None, map(_loaded, names)), None)
    if found is not None and _declared(found):
        return found
    if path:
        wanted = "expected the path of a libopus.so.0, or nothing for the system's"
        raise LibraryMissing(f"webrtc.sound.libopus: {path} is no libopus that loads; {wanted}")
    raise LibraryMissing("libopus, which codes calls, is missing; on Debian: apt install libopus0")


def _loaded(name: str) -> ctypes.CDLL | None:
    """The library of that name; looking it up any other way starts a process."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _declared(found: ctypes.CDLL) -> bool:
    """Says how its functions are called; false where it lacks one."""
    state, sound = ctypes.c_void_p, ctypes.c_void_p
    number, size, error = ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_int)
    try:
        found.opus_decoder_create.restype = state
        found.opus_decoder_create.argtypes = [size, number, error]
        found.opus_decoder_destroy.argtypes = [state]
        found.opus_decode.argtypes = [state, ctypes.c_char_p, size, sound, number, number]
        found.opus_encoder_create.restype = state
        found.opus_encoder_create.argtypes = [size, number, number, error]
        found.opus_encoder_destroy.argtypes = [state]
        found.opus_encode_float.argtypes = [state, sound, number, ctypes.c_char_p, size]
        # Variadic: only what comes before the dots, or Apple's ARM64 puts the rest in the wrong
        # place.
        found.opus_encoder_ctl.argtypes = [state, number]
    except AttributeError:
        return False
    return True
