"""The garbage collector looks seldom, and never at what stays: it holds up every call."""

from __future__ import annotations

import gc

_OBJECTS = 20_000
"""Objects made and not freed between two looks of the collector."""


def spare() -> None:
    """To be called once what stays is there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS)
