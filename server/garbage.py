"""The garbage collector looks at what calls leave, when there is enough of it, and never at what
stays.

A call that has ended is a knot of objects, ours and the stacks', which only the collector frees:
250 of them, with 100 kB. A look at all that is old takes a microsecond for each object of every
call, and holds all of them up: a tenth of a second with 400 of them. By itself the collector takes
such a look whenever much has been made, ended or not. So it is told when to: once as many calls
have ended as are a quarter of those that go on, and a moment later, when their connections are gone
too: where a thousand hang up at once, one look finds them all. And what stays, a thousand times as
much as a call, is no part of what is old.
"""

from __future__ import annotations

import asyncio
import gc

_LOOKS = (5_000, 5, 20)
"""Objects made and not freed between two looks at what is new, each of a millisecond or two; so
many of these for one at what is a little older, and of those for one at all: what is no call's ends
untold. So there is one for 2,000 calls that begin, and at most 50 MB that nobody knows of."""
_FEW = 8
"""Calls whose leavings are not worth a look."""
_REST = 2.0
"""Seconds that connections have to go before a look for what calls have left."""


class Leavings:
    """What calls left since the collector looked last."""

    def __init__(self) -> None:
        self._calls = 0
        self._spares = self._looks_soon = False

    def spare(self) -> None:
        """To be called once what stays is there."""
        self._spares = True
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_LOOKS)

    def ended(self, others: int) -> None:
        """A call has ended, and so many ``others`` go on."""
        self._calls += 1
        if self._spares and not self._looks_soon and self._calls > max(_FEW, others // 4):
            self._calls, self._looks_soon = 0, True
            asyncio.get_running_loop().call_later(_REST, self._look)

    def _look(self) -> None:
        self._looks_soon = False
        gc.collect()
