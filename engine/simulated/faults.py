"""Faults to order, for whoever must be shown to live with them."""

from __future__ import annotations

import os
from typing import Literal

from msgspec import Struct

from engine.remote import HOSTED


class FaultToOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault and when it strikes: ``after`` seconds heard (clocked: of speech), or when turn
    number ``turn`` ended.

    ``slow``: replies take ``seconds`` longer to begin (clocked: one tick takes them). ``stall``:
    the engine does nothing any more. ``crash``: the engine's process exits; where the engine has
    no process of its own, the session fails (clocked: every session). ``nan``: the next sound is
    not a number.
    """

    kind: Literal["slow", "stall", "crash", "nan"]
    after: float | None = None
    turn: int | None = None
    seconds: float = 1.0


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
