"""Places: how many sessions there may be, of one caller and of all.

Where sessions live in several processes, the limits hold across all of them: then a place is taken
from the process in front (:mod:`server.workers.desk`), and else from :class:`OwnPlaces`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, TypeAlias

from server.allowance import Allowances
from server.errors import unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from server.allowance import Allowance
    from server.settings import Limits

RETRY_AFTER = 5.0
"""Seconds after which asking again makes sense when every place is taken."""


class Place(Protocol):
    """What one session has, and uses of its caller's allowance."""

    def heard(self, seconds: float, now: int) -> float:
        """Counts the sound heard, ``seconds`` since the session began, at ``now`` ns.

        Returns the seconds that no more should be read for; 0: go on.
        """

    def offer(self, give_up: Callable[[], Awaitable[None]]) -> None:
        """Its caller is lost: a newcomer may have it, once ``give_up`` has ended the session."""

    def keep(self) -> None:
        """Its caller is back: nobody may have it."""

    def end(self) -> None:
        """Gives the place back; safe to call twice."""


class Places(Protocol):
    """Where they are taken from."""

    async def take(self, names: tuple[str, ...]) -> Place:
        """A place for a session of the caller that is counted under ``names``.

        Raises:
            ServiceError: none is free (503), or the caller had as much as is allowed (429).
        """

    def again(self, names: tuple[str, ...]) -> None:
        """Counts that such a caller comes back to a session, which has its place.

        Raises:
            ServiceError: the caller did so, or began sessions, too often (429).
        """


class OwnPlaces:
    """The places of one process: ``capacity`` says how many there are, as of now.

    Where none is free, the one whose caller was lost first goes to the newcomer.
    """

    def __init__(self, limits: Limits, capacity: Callable[[], int]) -> None:
        self._allowances = Allowances(limits)
        self._capacity = capacity
        self._taken: set[_Taken] = set()
        self._offered: Offered = {}

    async def take(self, names: tuple[str, ...]) -> Place:
        """See :class:`Places`."""
        allowance = self._allowances.start(names, time.monotonic_ns())
        try:
            while len(self._taken) >= (capacity := self._capacity()):
                if not self._offered:
                    message = f"all {capacity} places are taken; call again later"
                    raise unavailable("server_busy", message, RETRY_AFTER)
                await self._offered.pop(next(iter(self._offered)))()
        except BaseException:
            allowance.end()
            raise
        place = _Taken(allowance, self._taken, self._offered)
        self._taken.add(place)
        return place

    def again(self, names: tuple[str, ...]) -> None:
        """See :class:`Places`."""
        self._allowances.again(names, time.monotonic_ns())


class _Taken:
    """A place, those that are taken with it, and those of them that are offered."""

    def __init__(self, allowance: Allowance, among: set[_Taken], offered: Offered) -> None:
        self._among = among
        self._offered = offered
        self._allowance = allowance
        self.heard = allowance.heard

    def offer(self, give_up: Callable[[], Awaitable[None]]) -> None:
        """See :class:`Place`."""
        self._offered[self] = give_up

    def keep(self) -> None:
        """See :class:`Place`."""
        self._offered.pop(self, None)

    def end(self) -> None:
        """See :class:`Place`."""
        self.keep()
        self._among.discard(self)
        self._allowance.end()


Offered: TypeAlias = "dict[_Taken, Callable[[], Awaitable[None]]]"
"""Places that a newcomer may have, whose caller was lost first to last."""
