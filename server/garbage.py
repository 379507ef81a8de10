"""The garbage collector looks at what calls leave, often enough, and never at what stays.

A call that has ended is a knot of objects, ours and the stacks', which only the collector frees:
250 of them, with 100 kB. One that lasted has grown old by then, and the collector looks at what is
old only once a quarter as much has grown old since. So what stays, a thousand times as much as a
call, is no part of what is old: it is not looked at, which would hold up every call, nor counted.
"""

from __future__ import annotations

import gc

_OBJECTS = 5_000
"""Objects made and not freed between two looks of the collector, each of a millisecond or two."""


def spare() -> None:
    """To be called once what stays is there."""
    gc.collect()
    gc.freeze()
    gc.collect()  # Counts what is old anew: nothing.
    # Every third look is at all there is, if that has grown.
    gc.set_threshold(_OBJECTS, 0, 0)
