"""What one caller may use: sessions at once, starts per minute, sound per minute.

Each is counted under the caller's API key and under the address, so that nobody gets more by coming
again, with another key or from elsewhere. A start that is too many is refused, sound that is too
much slowed down where that can be done: the shells do so, here it is only counted. Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from server.buckets import Buckets
from server.errors import ServiceError

if TYPE_CHECKING:
    from server.settings import Limits

_SECOND = 1_000_000_000
_LATER = 5.0
"""Seconds after which a session may have ended."""
_STEP = 0.25
"""Seconds of sound that are counted together: it comes in pieces of twenty milliseconds."""


class Allowances:
    """The limits, and what is used of them now."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.caller_sessions
        self._running: Counter[str] = Counter()
        self._starts = Buckets(limits.caller_starts)
        self._sound = Buckets(limits.caller_audio)

    def start(self, names: tuple[str, ...], now: int) -> Allowance:
        """Counts a start, at ``now`` ns, under all ``names`` (:attr:`server.caller.Caller.names`);
        the session's end has to be told.

        Raises:
            ServiceError: 429, the caller has to wait.
        """
        if any(self._running[name] >= self._most for name in names):
            raise _exceeded(f"at most {self._most} sessions at once", "caller_sessions", _LATER)
        if wait := max((self._sound.wait(name, 0, now) for name in names), default=0):
            raise _exceeded("fewer seconds of sound per minute", "caller_audio", wait / _SECOND)
        self.again(names, now)
        self._running.update(names)
        return Allowance(self, names)

    def again(self, names: tuple[str, ...], now: int) -> None:
        """Counts a start of a session that runs: its caller comes back, which is as much work.

        Raises:
            ServiceError: 429, the caller has to wait.
        """
        if wait := max((self._starts.wait(name, 1, now) for name in names), default=0):
            raise _exceeded("fewer session starts per minute", "caller_starts", wait / _SECOND)
        for name in names:
            self._starts.take(name, 1, now)

    def heard(self, names: tuple[str, ...], seconds: float, now: int) -> float:
        """Counts sound; returns the seconds until its caller has paid for it."""
        for name in names:
            self._sound.take(name, seconds, now)
        return max((self._sound.wait(name, 0, now) for name in names), default=0) / _SECOND

    def ended(self, names: tuple[str, ...]) -> None:
        """One session less."""
        self._running.subtract(names)
        for name in names:
            if not self._running[name]:
                del self._running[name]


class Allowance:
    """What one running session uses."""

    def __init__(self, allowances: Allowances, names: tuple[str, ...]) -> None:
        self._allowances = allowances
        self._names = names
        self._heard = 0.0
        self._paid = 0
        self._ended = False

    def heard(self, seconds: float, now: int) -> float:
        """Counts the sound heard, ``seconds`` since the session began.

        Returns the seconds that no more should be read for; 0: go on.
        """
        more = seconds - self._heard
        if more < _STEP and now >= self._paid:
            return 0.0
        self._heard = seconds
        debt = self._allowances.heard(self._names, more, now)
        self._paid = now + round(debt * _SECOND)
        return debt

    def end(self) -> None:
        """The session is over; safe to call twice."""
        if not self._ended:
            self._ended = True
            self._allowances.ended(self._names)


def _exceeded(expected: str, limit: str, seconds: float) -> ServiceError:
    message = f"expected {expected} of one API key or address (limits.{limit}); call again later"
    return ServiceError(429, "server_error", "rate_limit_exceeded", message, retry_after=seconds)
