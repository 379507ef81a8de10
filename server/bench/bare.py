"""What the load is compared with: an aiohttp server that moves the same frames and does no more.

Whoever connects is told that its session has started; what it says is received and thrown away, and
every 80 ms all are sent a text as long as the event that would bring a frame of sound. Its garbage
is looked for as Parley's is (:mod:`server.garbage`): a look at all there is makes it late long
before its core is full.
``python -m server.bench.bare PROTOCOL`` prints its URL when it is ready.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress

from aiohttp import WSMsgType, web

from server.bench import frames
from server.bench.frames import DIALECTS, SECONDS, Dialect
from server.garbage import Leavings


class Bare:
    """The server."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._sockets: dict[web.WebSocketResponse, None] = {}
        self._leavings = Leavings()

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """One caller."""
        ws = web.WebSocketResponse(compress=False, decode_text=False)
        await ws.prepare(request)
        await ws.receive()
        await ws.send_str(f'{{"type":"{self._dialect.started.decode()}"}}')
        self._sockets[ws] = None
        try:
            async for _ in ws:
                pass
        finally:
            del self._sockets[ws]
            self._leavings.ended(len(self._sockets))
        return ws

    async def run(self) -> None:
        """Sends everybody a frame whenever one is due."""
        self._leavings.spare()
        text, due = frames.delta(self._dialect), time.monotonic()
        while True:
            due += SECONDS
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            for ws in tuple(self._sockets):
                with suppress(ConnectionError):
                    await ws.send_frame(text, WSMsgType.TEXT)


async def _main(dialect: Dialect) -> None:
    bare = Bare(dialect)
    app = web.Application()
    app.router.add_get(dialect.path.partition("?")[0], bare.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/", flush=True)
    await bare.run()


if __name__ == "__main__":
    asyncio.run(_main(next(each for name, each in DIALECTS.items() if name == sys.argv[1])))
