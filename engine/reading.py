"""A session's events one after the other, for whoever waits for the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from engine.contract import Closed, EngineSession, Event


async def read(session: EngineSession) -> AsyncIterator[Event]:
    """What ``session`` tells, up to and including ``Closed``; it is listened to from the first on.

    All that is not read is kept: the reader must keep up with a session that goes on.
    """
    unread: asyncio.Queue[Event] = asyncio.Queue()
    session.listen(unread.put_nowait)
    while True:
        event = await unread.get()
        yield event
        if isinstance(event, Closed):
            return
