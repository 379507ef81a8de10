"""When a call that plays a file is over. Pure; times are whole nanoseconds of any clock.

After the file the line stays open and silent, as a caller's does: the server needs the silence to
know that the turn is over, and then time to answer. How long is told by what happens, not by the
file.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["on", "over", "unanswered"]

SETTLE = 2_000_000_000
"""Quiet after a reply, in which the server may still find that the caller spoke again."""
PATIENCE = 20_000_000_000
"""Without any sign, while a reply is missing."""


class Ending:
    """Watches a call whose file has been played."""

    def __init__(self) -> None:
        self._since: int | None = None

    def poll(self, now: int, *, moved: bool, busy: bool, answered: bool) -> Verdict:
        """Whether the call goes on at ``now``.

        Args:
            moved: something came or was played since the last time.
            busy: a turn or a reply is under way.
            answered: there was a reply.
        """
        if moved or self._since is None:
            self._since = now
        quiet = now - self._since
        if answered and not busy:
            return "over" if quiet >= SETTLE else "on"
        return "unanswered" if quiet >= PATIENCE else "on"
