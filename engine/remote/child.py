"""The process an engine lives in, and the link to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from engine.remote import HOSTED, wire
from engine.remote.link import Link


class Child:
    """A process of our own; ``received`` and ``lost`` are the link's."""

    def __init__(self, process: subprocess.Popen[bytes], link: Link) -> None:
        self._process = process
        self.link = link

    @classmethod
    async def spawn(cls, received: Callable[[Any], None], lost: Callable[[str], None]) -> Child:
        """Starts a process. It finds what this one can import, and holds nothing else of it."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = _start(theirs.fileno())
            except OSError:
                ours.close()
                raise
        link = Link(wire.FromHost, received, lost)
        await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
        return cls(process, link)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    async def terminate(self, grace: float) -> None:
        """Asks the process to end and, after ``grace`` seconds, ends it."""
        self._process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._exited()
        await self.kill()

    async def kill(self) -> int:
        """Ends the process at once, if it has not ended; returns its exit code (-9: killed)."""
        self._process.kill()
        code = await self._exited()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.link.abort("its process ended")
        await self.link.ended.wait()
        return code

    async def _exited(self) -> int:
        """The exit code, found without a thread: where none is left, an engine may be lost too."""
        while (code := self._process.poll()) is None:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)
        return code


def _start(socket: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "engine.remote.host", str(socket)],
        pass_fds=[socket],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), HOSTED: "1"},
    )
