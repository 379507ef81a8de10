"""How loud sound is."""

from __future__ import annotations

import math

import numpy as np

from engine.contract import Samples


def rms(pcm: Samples) -> float:
    """Root mean square; 0 of no samples."""
    return math.sqrt(float(np.dot(pcm, pcm)) / len(pcm)) if len(pcm) else 0.0


def dbfs(pcm: Samples) -> float:
    """RMS in dB relative to full scale (a full-scale sine is -3.01); ``-inf`` of silence."""
    level = rms(pcm)
    return 20.0 * math.log10(level) if level else -math.inf
