"""An engine without a model: deterministic, and with faults to order.

It keeps the whole contract, so that everything outside an engine can be built, tested and measured
against it: turns by a plain level detector, transcripts and replies by script or by echo. With a
tick it is a simulated model on the loop of ``engine.duplex``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.contract import Engine
from engine.simulated.clocked import clocked
from engine.simulated.engine import Simulated
from engine.simulated.options import parse

__all__ = ["Simulated", "create"]


def create(options: Mapping[str, Any]) -> Engine:
    """The engine as ``options`` (see :class:`engine.simulated.options.Options`) describe it.

    Raises:
        EngineError: an option is unknown or does not fit.
    """
    told = parse(options)
    return Simulated(options) if told.tick is None else clocked(told, told.tick)
