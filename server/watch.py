"""The loop, watched: how late it wakes, what it takes, and whether that is too much."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import structlog

from server.overload import Look

if TYPE_CHECKING:
    from server.observe import Metrics
    from server.overload import Overload

_PERIOD = 0.1

log = structlog.get_logger(__name__)


async def watch_loop(metrics: Metrics, overload: Overload) -> None:
    """Looks at the running loop until cancelled: counts what it sees, and has it judged."""
    loop = asyncio.get_running_loop()
    metrics.tasks(lambda: len(asyncio.all_tasks(loop)))
    before = None
    while True:
        due = loop.time() + _PERIOD
        await asyncio.sleep(_PERIOD)
        now = loop.time()
        late = max(0.0, now - due)
        overload.look(Look(now, time.thread_time(), late))
        metrics.lagged(late)
        busy = overload.busy
        metrics.busy(busy and busy.reason)
        if busy is None and before is not None:
            log.info("callers are taken again")
        elif busy is not None and before is None:
            log.warning("no new callers are taken", reason=busy.reason, why=busy.why)
        before = busy
