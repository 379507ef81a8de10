"""One level of a ramp: what its callers heard, what the server took, whether it is clean. Pure.

Clean is what a caller would call so: every session starts and stays, every frame is the caller's
own and in order, and no player that holds back 120 ms runs dry. Frames may be late by half of
their length, 40 ms, at the 99th percentile: a third of that player's buffer, so that a level passes
by some margin and not by luck.
"""

from __future__ import annotations

import msgspec
import numpy as np

from server.bench.heard import BUFFER, Heard

LATE = 0.04
"""Seconds, p99."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of so many callers; times in seconds, CPU in seconds per second."""

    server: str
    callers: int
    connect_p50: float
    connect_max: float
    late_p50: float
    late_p99: float
    late_max: float
    back_p50: float
    back_p99: float
    """From saying a piece to hearing it."""
    frames: int
    underruns: int
    wrong: int
    silent: int
    errors: int
    blocked: int
    lost: int
    front: float
    """CPU of the process with the sockets, and of the engine's."""
    engine: float
    memory: int
    """Bytes, of all the server's processes."""
    stolen: float
    """Share of the machine's CPU time that went elsewhere."""
    own_late_p99: float
    """How late the callers themselves said their pieces."""
    own_cpu: float

    @property
    def faults(self) -> list[str]:
        """Why it is not clean."""
        found = {
            f"{self.lost} sessions lost": self.lost,
            f"{self.errors} errors": self.errors,
            f"{self.wrong} frames wrong": self.wrong,
            f"{self.underruns} underruns": self.underruns,
            f"{self.blocked} pieces not taken": self.blocked,
            f"frames late p99 {1000 * self.late_p99:.0f} ms": self.late_p99 > LATE,
        }
        return [fault for fault, true in found.items() if true]

    def line(self) -> str:
        """For people."""
        return (
            f"{self.server}, {self.callers} callers: started in p50 {1000 * self.connect_p50:.0f}, "
            f"most {1000 * self.connect_max:.0f} ms; late p50 {1000 * self.late_p50:.1f}, p99 "
            f"{1000 * self.late_p99:.1f}, most {1000 * self.late_max:.1f} ms; there and back p50 "
            f"{1000 * self.back_p50:.0f}, p99 {1000 * self.back_p99:.0f} ms; {self.frames} frames, "
            f"{self.underruns} underruns, {self.wrong} wrong, {self.silent} silent; server "
            f"{100 * self.front:.0f} %, engine {100 * self.engine:.0f} % of a core, "
            f"{self.memory / 1e6:.0f} MB; callers late p99 {1000 * self.own_late_p99:.1f} ms, "
            f"{100 * self.own_cpu:.0f} %; stolen {100 * self.stolen:.1f} %: "
            + (", ".join(self.faults) or "clean")
        )


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """What a level took of the machine; see :class:`Level`."""

    front: float
    engine: float
    memory: int
    stolen: float
    own_cpu: float


def level(server: str, callers: int, heard: Heard, took: Took) -> Level:
    """What ``callers`` heard of ``server``, summed up."""
    return Level(
        server=server,
        callers=callers,
        connect_p50=_percentile(heard.connecting, 50),
        connect_max=_percentile(heard.connecting, 100),
        late_p50=_percentile(heard.late, 50),
        late_p99=_percentile(heard.late, 99),
        late_max=_percentile(heard.late, 100),
        back_p50=_percentile(heard.back, 50),
        back_p99=_percentile(heard.back, 99),
        frames=len(heard.late),
        underruns=heard.underruns,
        wrong=heard.wrong,
        silent=heard.silent,
        errors=heard.errors,
        blocked=heard.blocked,
        lost=heard.lost,
        own_late_p99=_percentile(heard.own_late, 99),
        **msgspec.structs.asdict(took),
    )


def _percentile(values: list[float], percent: float) -> float:
    return float(np.percentile(values, percent)) if values else 0.0


CRITERIA = (
    f"clean: every session starts and stays, every frame its caller's own, no player with "
    f"{1000 * BUFFER:.0f} ms runs dry, frames late p99 at most {1000 * LATE:.0f} ms; a level that "
    "is not is tried once more"
)
