"""Whether a process has more to do than it can do in time. Pure.

It must be known before a caller hears it. What tells so early is the share of a core that the
loop's thread uses: as it nears the whole, whatever comes must wait for what came before, and frames
leave late. Only a machine with other work makes them late sooner, and what shows then is how late
the loop wakes. (How late frames leave says no more: they leave when it wakes, and perhaps nobody is
spoken to just now.) A call that has just come takes more than shows yet, and counts as a usual one
until it does: many may come at once.

Both are judged over the last looks, some seconds. These are counted, not timed, so that one stall,
however long, is one of many.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

LOOKS = 30
"""Looks that are judged together; fewer say nothing yet."""
LATE = 0.250
"""Seconds by which half of the wakes may be late: nobody can talk like that, and a machine that has
much else to do comes to a third of it."""
NEWCOMER = 0.03
"""Share of a core that a call is taken to need, until it shows."""
EASE = 0.9
"""Share of a bound that must be kept to for callers to be taken again."""


BusyReason: TypeAlias = Literal["cpu", "lag"]


class Busy(NamedTuple):
    """Why no new callers are taken: ``why`` says so in words, with figures."""

    reason: BusyReason
    why: str


class Look(NamedTuple):
    """The loop's thread had used ``cpu`` seconds of CPU at the time ``at``; the loop woke ``late``
    seconds after it should have.
    """

    at: float
    cpu: float
    late: float


class Overload:
    """Judges one loop.

    Args:
        most: share of a core that its thread may use; 1: nobody is ever refused.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._looks: deque[Look] = deque(maxlen=LOOKS)
        self._came: deque[int] = deque([0], maxlen=LOOKS)
        self._refused = False
        """Whether callers were, at the last look: then all has to be well below a bound."""
        self.busy: Busy | None = None
        """Why new callers should be refused now, if they should."""

    def look(self, look: Look) -> None:
        """Takes the next look; they are equally far apart, but for how late the loop wakes."""
        self._looks.append(look)
        self._came.append(0)
        self._refused = self.busy is not None
        self.busy = self._judged()
        self._refused = self.busy is not None

    def came(self) -> None:
        """A new call is being taken."""
        self._came[-1] += 1
        self.busy = self._judged()

    def failed(self) -> None:
        """One that was being taken was not had: the newest, which is as good as any."""
        newest = next((n for n in reversed(range(len(self._came))) if self._came[n]), None)
        if newest is not None:
            self._came[newest] -= 1
            self.busy = self._judged()

    def _judged(self) -> Busy | None:
        if self._most >= 1 or len(self._looks) < LOOKS:
            return None
        ease = EASE if self._refused else 1.0
        first, last = self._looks[0], self._looks[-1]
        share = (last.cpu - first.cpu) / (last.at - first.at)
        soon = NEWCOMER * self._unseen()
        if share + soon > ease * self._most:
            more = f", and soon {soon:.0%} more by calls that have just come" if soon else ""
            why = f"{share:.0%} of a core is in use{more}; expected at most {self._most:.0%}"
            return Busy("cpu", why)
        late = median(look.late for look in self._looks)
        if late > ease * LATE:
            why = f"its loop wakes {1000 * late:.0f} ms late; expected at most {1000 * LATE:.0f} ms"
            return Busy("lag", why)
        return None

    def _unseen(self) -> float:
        """How many calls of those that have just come the looks do not show."""
        ages = range(len(self._came) - 1, -1, -1)
        return sum(came * (1 - age / LOOKS) for came, age in zip(self._came, ages, strict=True))
