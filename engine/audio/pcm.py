"""Samples and bytes: the one place where sound changes its number format.

Full scale is 32768 in both directions, so every 16-bit sample survives the way to float and back
unchanged. A float that would round to 32768 is clipped to 32767; rounding is to nearest, half to
even. Sound must be finite: engines are checked for that where their sound leaves them.

G.711 (ITU-T G.711 11/88, both laws) goes by table: 256 entries to decode, one for each 16-bit value
to encode. A byte is one sample, its bits inverted on the line as the recommendation says.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from engine.contract import Samples, Sound

Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]

PCM16 = np.dtype("<i2")
"""16-bit samples as they are sent: little-endian."""

_STEP = np.float32(1 / 32768)


def from_int16(pcm: Int16, out: Samples | None = None) -> Samples:
    """Floats in -1..1 of 16-bit samples, in ``out`` if that is given."""
    return np.multiply(pcm, _STEP, out=out, dtype=np.float32)


def to_int16(pcm: Samples, scaled: Samples | None = None) -> Int16:
    """16-bit samples of floats; those outside -1..1 are clipped.

    ``scaled``, if it is given, is spent on the way; it may be ``pcm`` itself.
    """
    scaled = np.multiply(pcm, np.float32(32768), out=scaled)
    np.rint(scaled, out=scaled)
    scaled.clip(-32768, 32767, out=scaled)
    return scaled.astype(np.int16)


def floats(sound: Sound) -> Samples:
    """The samples of ``sound``, whichever form it has."""
    return from_int16(cast(Int16, sound)) if whole(sound) else cast(Samples, sound)


def int16(sound: Sound) -> Int16:
    """``sound`` as 16-bit samples, whichever form it has."""
    return cast(Int16, sound) if whole(sound) else to_int16(cast(Samples, sound))


def whole(sound: Sound) -> bool:
    """Whether its samples are integers, and so numbers."""
    return sound.dtype.kind == "i"


def from_pcm16(data: bytes | memoryview) -> Samples:
    """Floats of 16-bit little-endian samples.

    Raises:
        ValueError: half a sample is missing.
    """
    if len(data) % 2:
        raise ValueError(f"audio: expected whole 16-bit samples, got {len(data)} bytes")
    return from_int16(np.frombuffer(data, PCM16))


def to_pcm16(sound: Sound) -> bytes:
    """16-bit little-endian samples."""
    if sound.dtype != PCM16:
        sound = int16(sound).astype(PCM16)
    return sound.tobytes()


def from_pcmu(data: bytes | memoryview) -> Samples:
    """Floats of G.711 mu-law."""
    return _PCMU[np.frombuffer(data, np.uint8)]


def to_pcmu(pcm: Samples) -> bytes:
    """G.711 mu-law of floats."""
    return _TO_PCMU[to_int16(pcm).view(np.uint16)].tobytes()


def from_pcma(data: bytes | memoryview) -> Samples:
    """Floats of G.711 A-law."""
    return _PCMA[np.frombuffer(data, np.uint8)]


def to_pcma(pcm: Samples) -> bytes:
    """G.711 A-law of floats."""
    return _TO_PCMA[to_int16(pcm).view(np.uint16)].tobytes()


def _decoded_pcmu() -> Int16:
    code = ~np.arange(256, dtype=np.uint8)
    segment, step = (code >> 4) & 7, (code & 15).astype(np.int32)
    size = (((step << 3) + 132) << segment) - 132
    return np.where(code & 128, -size, size).astype(np.int16)


def _decoded_pcma() -> Int16:
    code = np.arange(256, dtype=np.uint8) ^ np.uint8(0x55)
    segment, step = ((code >> 4) & 7).astype(np.int32), (code & 15).astype(np.int32)
    size = np.where(segment > 0, ((step << 4) + 264) << np.maximum(segment - 1, 0), (step << 4) + 8)
    return np.where(code & 128, size, -size).astype(np.int16)


def _encoded_pcmu() -> npt.NDArray[np.uint8]:
    size = np.minimum((_sizes() >> 2) + 33, 8191)
    segment = np.log2(size).astype(np.int32) - 5
    code: Int32 = (segment << 4) | ((size >> (segment + 1)) & 15)
    return (~code ^ _signs()).astype(np.uint8)


def _encoded_pcma() -> npt.NDArray[np.uint8]:
    size = _sizes() >> 4
    segment = np.maximum(np.log2(np.maximum(size, 1)).astype(np.int32) - 3, 0)
    code: Int32 = (segment << 4) | ((size >> np.maximum(segment - 1, 0)) & 15)
    return (code ^ 0xD5 ^ _signs()).astype(np.uint8)


def _sizes() -> Int32:
    """Each 16-bit value, indexed as unsigned, without its sign (one's complement, as in G.191)."""
    values = np.arange(65536, dtype=np.int32)
    return np.where(values < 32768, values, 65535 - values)


def _signs() -> Int32:
    """The sign bit of each 16-bit value, indexed as unsigned."""
    return (np.arange(65536, dtype=np.int32) >> 15) << 7


_PCMU = from_int16(_decoded_pcmu())
_PCMA = from_int16(_decoded_pcma())
_TO_PCMU = _encoded_pcmu()
_TO_PCMA = _encoded_pcma()
