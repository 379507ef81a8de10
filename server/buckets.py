"""Token buckets: how much each of many callers may take of something. Pure.

A caller's bucket holds a minute's worth and fills at a steady rate. More than it holds may be taken
(sound is counted when it was heard): that leaves a debt, which is paid off at the same rate.

All there is to know of a bucket is when it will be full again (the generic cell rate algorithm, ITU
I.371), and a full one is like one never seen. So a caller who comes back finds what was left, only
those who took something within the last minutes are remembered, and of them a bounded number.

Time is whole nanoseconds of any clock that never goes back.
"""

from __future__ import annotations

MOST = 10_000
"""Callers that are remembered; beyond, the one who took nothing for the longest is forgotten."""

_MINUTE = 60_000_000_000


class Buckets:
    """One bucket per caller.

    Args:
        per_minute: what fits into a bucket, and flows into it in a minute; more than 0.
        most: callers that are remembered at most.
    """

    def __init__(self, per_minute: float, most: int = MOST) -> None:
        self._cost = _MINUTE / per_minute
        self._most = most
        self._full_at: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def wait(self, who: str, amount: float, now: int) -> int:
        """Nanoseconds until ``who`` can take ``amount`` without a debt; 0: now.

        An amount that no bucket holds waits for a full one.
        """
        missing = max(0, self._full_at.get(who, now) - now)
        room = max(0, _MINUTE - round(amount * self._cost))
        return max(0, missing - room)

    def take(self, who: str, amount: float, now: int) -> None:
        """Takes ``amount`` from the bucket of ``who``, with a debt if it is more than is there."""
        full_at = max(now, self._full_at.pop(who, now)) + round(amount * self._cost)
        self._full_at[who] = full_at
        oldest = next(iter(self._full_at))
        if len(self._full_at) > self._most or self._full_at[oldest] <= now:
            del self._full_at[oldest]
