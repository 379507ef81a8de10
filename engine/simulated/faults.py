"""Faults to order, for whoever must be shown to live with them."""

from __future__ import annotations

import os
import time
from typing import Literal

from msgspec import Struct

from engine.remote import HOSTED


class FaultToOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault and when it strikes: ``after`` seconds heard (clocked: of speech), or when turn
    number ``turn`` ended.

    ``slow``: replies take ``seconds`` longer to begin (clocked: one tick takes them). ``stall``:
    the engine does nothing any more. ``busy``: its process does nothing else for ``seconds``, as
    with a model that holds the interpreter. ``crash``: the engine's process exits; where it has no
    process of its own, the session fails (clocked: every session). ``nan``: the next sound is not
    a number.
    """

    kind: Literal["slow", "stall", "busy", "crash", "nan"]
    after: float | None = None
    turn: int | None = None
    seconds: float = 1.0


def keep_busy(seconds: float) -> None:
    """Does nothing of use for so long, on the thread that called."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


class Crash(Exception):
    """The crash that was ordered."""


def crash() -> None:
    """Ends the process, or raises."""
    if HOSTED in os.environ:
        os._exit(70)
    raise Crash


def struck(faults: list[FaultToOrder], seconds: float, turns: int = 0) -> list[FaultToOrder]:
    """Takes out of ``faults`` those due after ``seconds`` heard or ``turns`` that have ended."""
    due = [
        fault
        for fault in faults
        if (fault.after is not None and seconds >= fault.after)
        or (fault.turn is not None and turns >= fault.turn)
    ]
    for fault in due:
        faults.remove(fault)
    return due
