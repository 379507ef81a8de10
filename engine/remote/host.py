"""The engine's own process: ``python -m engine.remote.host FD``.

It serves one engine over the inherited socket FD and lives no longer than its parent, which holds
the other end of its standard input. Where the parent names a Unix socket, other servers of this
machine's join by it, once the engine is ready (:mod:`engine.remote.served` is one server's part).

What it logs is written by the parent; see :mod:`engine.remote.logs`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import structlog

from engine import registry
from engine.contract import Engine, EngineError
from engine.process import end_with_parent
from engine.remote import logs, wire
from engine.remote.link import Link
from engine.remote.served import Served

_NICENESS = 3
"""Added to this process's: a model that waits a little delays one answer; a frame that waits is a
gap, or has the browser buffer more. The media loop goes first, by half: on a machine that is busy
with something else a far nicer process gets no turn at all, and is taken for stalled."""

log = structlog.get_logger("engine.remote.host")


class Host:
    """Serves one engine to its parent, and to whoever joins."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._served: dict[Link, Served] = {}
        self._beginning: asyncio.Task[None] | None = None
        self._door: asyncio.Server | None = None
        self._over = asyncio.Event()
        self._parent = Link(wire.ToHost, self._from_parent, lambda reason: self._over.set())

    async def run(self, sock: socket.socket) -> None:
        """Serves until the parent says that it is over, or its link ends."""
        await asyncio.get_running_loop().create_connection(lambda: self._parent, sock=sock)
        await self._over.wait()
        if self._door is not None:
            self._door.close()
        if self._engine is not None:
            await self._stop(self._engine)
        for link, served in tuple(self._served.items()):
            await served.finish()
            link.flush()
            link.close()

    async def _stop(self, engine: Engine) -> None:
        try:
            await engine.stop()
        except Exception as error:
            log.error("engine did not stop", exc_info=error)

    def _from_parent(self, message: wire.Audio | wire.ToHost) -> None:
        if isinstance(message, wire.Begin):
            self._beginning = asyncio.create_task(self._begin(message))
        elif isinstance(message, wire.End):
            self._over.set()
        else:
            self._served[self._parent].received(message)

    async def _begin(self, begin: wire.Begin) -> None:
        logs.forward(self._parent.send, debug=begin.debug)
        try:
            engine = registry.create(begin.name, begin.options, own_process=False)
            await engine.start()
            if begin.door:
                await self._open_door(engine, begin.door)
        except EngineError as error:
            self._parent.send(wire.Failed(str(error)))
        except Exception as error:
            self._parent.send(wire.Failed(f"{type(error).__name__}: {error}"))
        else:
            self._engine = engine
            self._served[self._parent] = Served(engine, self._parent)

    async def _open_door(self, engine: Engine, path: str) -> None:
        """Lets other servers in; the folder that ``path`` lies in keeps strangers out."""

        def join() -> Link:
            def received(message: wire.Audio | wire.ToHost) -> None:
                if isinstance(message, wire.Join):
                    self._served[link] = Served(engine, link)
                else:
                    self._served[link].received(message)

            def lost(reason: str) -> None:
                if served := self._served.pop(link, None):
                    served.lost()

            link = Link(wire.ToHost, received, lost)
            return link

        self._door = await asyncio.get_running_loop().create_unix_server(join, path)


def main() -> None:
    """Runs the process."""
    os.nice(_NICENESS)
    end_with_parent()
    asyncio.run(_main(socket.socket(fileno=int(sys.argv[1]))))


async def _main(sock: socket.socket) -> None:
    await Host().run(sock)


if __name__ == "__main__":
    main()
