"""Whisper's log-mel spectrogram of the last eight seconds, as Smart Turn was trained on.

The sound is set at the end of an eight-second window of silence, brought to zero mean and unit
variance, cut into 25 ms frames each 10 ms, and each frame's power is gathered into 80 bands on
Slaney's mel scale; the logarithm is floored eight decades below its maximum (OpenAI Whisper,
``audio.py``; Hugging Face Transformers, ``WhisperFeatureExtractor``).

Two things make it fast: single precision, whose error lies far below that floor, and the silence
before a short take, every frame of which is alike, so that one is computed for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from engine.contract import Samples

RATE = 16_000
"""Hz, of the sound it takes."""

BANDS = 80
FRAMES = 800

_HOP = 160
_FRAME = 400
_SAMPLES = FRAMES * _HOP
_EDGE = _FRAME // 2


def log_mel(pcm: Samples) -> Samples:
    """The features ``[BANDS, FRAMES]`` of the last eight seconds of ``pcm``."""
    sound = pcm[-_SAMPLES:]
    silence = _SAMPLES - len(sound)
    window = np.zeros(_SAMPLES, np.float32)
    window[silence:] = sound
    window -= window.mean()
    window /= np.sqrt(window.var() + 1e-7)

    alike = max(0, (silence - _EDGE) // _HOP)  # frames that hold what the one after them holds
    padded = np.pad(window, _EDGE, mode="reflect")[alike * _HOP :]
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FRAME)[::_HOP][: FRAMES - alike]
    spectrum = np.fft.rfft(frames * _HANN)
    power = spectrum.real**2 + spectrum.imag**2
    logs = np.log10(np.maximum(power @ _MEL, 1e-10))
    logs = np.maximum(logs, logs.max() - 8)

    features = np.empty((FRAMES, BANDS), np.float32)
    features[alike:] = logs / 4 + 1
    features[:alike] = features[alike]
    return np.ascontiguousarray(features.T)


def _mel_bank() -> npt.NDArray[np.float32]:
    """Weights ``[frequency, band]``: triangles of equal area between 0 Hz and half the rate."""
    edges = _hertz(np.linspace(0.0, _mel(RATE / 2), BANDS + 2))
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    frequency = np.linspace(0.0, RATE / 2, _FRAME // 2 + 1)[:, np.newaxis]
    rising = (frequency - low) / (middle - low)
    falling = (high - frequency) / (high - middle)
    return (np.clip(np.minimum(rising, falling), 0, None) * 2 / (high - low)).astype(np.float32)


# Slaney's scale: linear below 1 kHz, which is mel 15, and logarithmic above.
_STEP = np.log(6.4) / 27


def _mel(hertz: float) -> float:
    return float(15 + np.log(hertz / 1000) / _STEP)


def _hertz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * _STEP))


_HANN = np.hanning(_FRAME + 1)[:-1].astype(np.float32)
_MEL = _mel_bank()
