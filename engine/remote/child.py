"""The process an engine lives in, and the link to it: one of our own, or one that others share."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.process import Process
from engine.remote import HOSTED, wire
from engine.remote.link import Link

Received = Callable[[Any], None]
Lost = Callable[[str], None]


class Child:
    """A process of our own; ``received`` and ``lost`` are the link's."""

    def __init__(self, process: Process, link: Link) -> None:
        self._process = process
        self.link = link

    @classmethod
    async def spawn(cls, received: Received, lost: Lost) -> Child:
        """Starts a process.

        Raises:
            OSError: none can be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                fd = theirs.fileno()
                process = Process.start(
                    "engine.remote.host", str(fd), keep=[fd], environment={HOSTED: "1"}
                )
            except OSError:
                ours.close()
                raise
        link = Link(wire.FromHost, received, lost)
        await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
        return cls(process, link)

    @property
    def pid(self) -> int | None:
        """The process's id."""
        return self._process.pid

    async def terminate(self, grace: float) -> None:
        """Asks the process to end and, after ``grace`` seconds, ends it."""
        self.link.send(wire.End())
        await self._process.leave(grace)
        await self._hang_up()

    async def kill(self) -> int:
        """Ends the process at once, if it has not ended; returns its exit code (-9: killed)."""
        code = await self._process.kill()
        await self._hang_up()
        return code

    async def _hang_up(self) -> None:
        self.link.abort("its process ended")
        await self.link.ended.wait()


class Guest:
    """A share in the process of another server's engine."""

    pid = None
    """It is not ours."""

    def __init__(self, link: Link) -> None:
        self.link = link

    @classmethod
    async def join(cls, door: Path, received: Received, lost: Lost) -> Guest:
        """Joins by ``door``.

        Raises:
            OSError: nobody is there.
        """
        link = Link(wire.FromHost, received, lost)
        await asyncio.get_running_loop().create_unix_connection(lambda: link, str(door))
        return cls(link)

    async def terminate(self, grace: float) -> None:
        """Leaves."""
        await self.kill()

    async def kill(self) -> int:
        """Leaves at once; how the process ends is its owner's affair."""
        self.link.abort("its process ended")
        await self.link.ended.wait()
        return 0
