"""One level of a ramp over WebRTC: its figures, whether it is clean, what it comes to. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from server.bench.webrtc.found import ALIKE, LATEST, Found

VERIFIED = 0.98
"""Share of what was said that has to come back."""
JITTER_P99 = 0.010
"""Seconds between two packets, more or less than the first one's length."""
ADDED_P50, ADDED_P99 = 0.010, 0.025
"""Seconds from a packet in to the packet out that holds its sound."""
COST, COST_AT = 0.03, 25
"""Cores per session that always talks, all processes of the server; from so many sessions on."""
CLEAN = {1.0: 40, 0.4: 90}
"""Sessions that one media core carries, by the share of the time that a caller talks."""
OWN_LATE = 0.005
"""Seconds, p99, that callers may be late before their own lateness is what is measured."""
STOCK_AT, STOCK = 10, (0.06, 0.12)
"""Cores per session of stock aiortc; outside of it the machine is not comparable."""
CRITERIA = (
    f"clean: of all loud speech said, {VERIFIED:.0%} comes back to its caller within "
    f"{LATEST * 1000:.0f} ms (all callers; every 200 ms correlate by {ALIKE} or more), send jitter "
    f"p99 {JITTER_P99 * 1000:.0f} ms, added delay p50 {ADDED_P50 * 1000:.0f}, p99 "
    f"{ADDED_P99 * 1000:.0f} ms; packets leave the callers late by p99 {OWN_LATE * 1000:.0f} ms at "
    "most, else void"
)


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """What a level took of the machine: CPU in cores, ``memory`` in bytes."""

    front: float
    """Of the process with the sockets; ``engine`` of all its children."""
    engine: float
    own: float
    """Of the callers."""
    memory: int
    threads: int
    """Of all the server's processes, like ``memory``."""
    lag_p99: float | None
    """Seconds that the server's loop is late, at most (a histogram's bound); None: not told."""
    stolen: float
    """Share of the machine's CPU time that went elsewhere."""
    load: float
    """Load average of the last minute."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of so many callers; times in seconds."""

    server: str
    callers: int
    refused: int
    """Callers beside those who were not let in."""
    verified: float
    added_p50: float
    added_p99: float
    jitter_p50: float
    jitter_p99: float
    own_late_p99: float
    took: Took

    @property
    def cost(self) -> float:
        """Cores per session."""
        return (self.took.front + self.took.engine) / max(1, self.callers)

    @property
    def void(self) -> bool:
        """Whether it says more of the callers than of the server."""
        return self.own_late_p99 > OWN_LATE

    @property
    def faults(self) -> list[str]:
        """Why it is not clean."""
        found = {
            f"{self.verified:.1%} verified": self.verified < VERIFIED,
            "send jitter": not self.jitter_p99 <= JITTER_P99,
            "added delay": not (self.added_p50 <= ADDED_P50 and self.added_p99 <= ADDED_P99),
            "void, the callers were late": self.void,
        }
        return [fault for fault, true in found.items() if true]

    def line(self) -> str:
        """For people."""
        took = self.took
        lag = "not told" if took.lag_p99 is None else f"<= {1000 * took.lag_p99:g} ms"
        refused = f" ({self.refused} more refused)" if self.refused else ""
        return (
            f"{self.server}, {self.callers} callers{refused}: {self.verified:.1%} verified; "
            f"send jitter p50 {1000 * self.jitter_p50:.1f}, p99 {1000 * self.jitter_p99:.1f} ms; "
            f"added delay p50 {1000 * self.added_p50:.1f}, p99 {1000 * self.added_p99:.1f} ms; "
            f"CPU front {100 * took.front:.0f} %, engine {100 * took.engine:.0f} %, "
            f"{100 * self.cost:.2f} % of a core each; {took.memory / 1e6:.0f} MB, {took.threads} "
            f"threads, loop lag p99 {lag}; callers {100 * took.own:.0f} %, late p99 "
            f"{1000 * self.own_late_p99:.1f} ms; stolen {took.stolen:.1%}, load {took.load:.1f}: "
            + (", ".join(self.faults) or "clean")
        )


def level(
    server: str, found: Sequence[Found], late: Sequence[float], took: Took, refused: int = 0
) -> Level:
    """What callers ``found`` of what they said, summed up; ``late`` are the callers themselves."""
    stretches = sum(each.stretches for each in found)
    delays = [delay for each in found for delay in each.delays]
    jitter = [gap for each in found for gap in each.jitter]
    return Level(
        server=server,
        callers=len(found),
        refused=refused,
        verified=sum(each.alike for each in found) / stretches if stretches else 0.0,
        added_p50=_percentile(delays, 50),
        added_p99=_percentile(delays, 99),
        jitter_p50=_percentile(jitter, 50),
        jitter_p99=_percentile(jitter, 99),
        own_late_p99=_percentile(late, 99),
        took=took,
    )


def _percentile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent)) if values else float("inf")


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a run comes to: which budgets were kept and which missed, in words."""

    clean: int
    """Callers of the last level that was."""
    void: str
    """Why the run says nothing, if it does not."""
    kept: list[str]
    missed: list[str]

    @classmethod
    def of(cls, levels: Sequence[Level], talk: float) -> Verdict:
        """What ``levels``, of callers who talk so much, come to; not all can be judged of each."""
        ours = [each for each in levels if each.server == "parley"]
        clean = max((each.callers for each in ours if not each.faults), default=0)
        judged: dict[str, bool] = {}
        if (wanted := CLEAN.get(talk)) and (
            clean >= wanted or any(each.faults or each.refused for each in ours)
        ):
            judged[f"{clean} sessions are clean on one media core, budget {wanted}"] = (
                clean >= wanted
            )
        costs = [each for each in ours if each.callers >= COST_AT and talk >= 1]
        for each in costs[:1]:
            told = f"{100 * each.cost:.2f} % of a core per session at {each.callers}, budget"
            judged[f"{told} {100 * COST:g} %"] = each.cost <= COST
        return cls(
            clean=clean,
            void=_void(levels),
            kept=[what for what, kept in judged.items() if kept],
            missed=[what for what, kept in judged.items() if not kept],
        )

    @property
    def status(self) -> int:
        """What the command returns."""
        return 1 if self.void or self.missed or not self.clean else 0

    def line(self) -> str:
        """For people."""
        kept = [f"kept: {what}" for what in self.kept]
        missed = [f"MISSED: {what}" for what in self.missed]
        void = [f"VOID: {self.void}"] if self.void else []
        return "; ".join([f"clean up to {self.clean} callers", *kept, *missed, *void])


def _void(levels: Sequence[Level]) -> str:
    for each in levels:
        if each.server == "stock" and each.callers == STOCK_AT:
            least, most = STOCK
            if not least <= each.cost <= most:
                told = f"stock aiortc took {100 * each.cost:.1f} % of a core per session"
                return f"{told}, not {100 * least:g} to {100 * most:g}"
    late = [each.callers for each in levels if each.server == "parley" and each.void]
    return f"the callers were late at {late[0]}" if late else ""
