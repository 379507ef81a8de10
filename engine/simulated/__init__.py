"""An engine without a model: deterministic, and with faults to order.

It keeps the whole contract, so that everything outside an engine can be built, tested and measured
against it: turns by a plain level detector, transcripts and replies by script or by echo.
"""

from engine.simulated.engine import Simulated

__all__ = ["Simulated"]
