"""A process of our own that lives no longer than this one.

It holds the reading end of a pipe whose other end is here: that closes however this process ends,
and :func:`end_with_parent`, run over there, ends it then, even where it is blocked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Self

FIRST_WAIT, LONGEST_WAIT = 0.25, 30.0
"""Seconds before a lost process is followed by another: at first, and at most."""
STEADY = 60.0
"""Seconds that one must run for the next to be started without waiting longer."""


class Process:
    """A Python process; :meth:`start` makes one."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    def start(
        cls,
        module: str,
        *arguments: str,
        keep: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Runs ``module``. It finds what this process can import, and holds nothing else of it but
        the files ``keep``.

        Raises:
            OSError: no process can be started.
        """
        path = os.pathsep.join(filter(None, sys.path))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            pass_fds=keep,
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def tell(self, data: bytes) -> None:
        """Writes to its standard input; what exceeds a pipe's buffer waits for it to read."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    async def leave(self, grace: float) -> int:
        """Gives it, which was asked to end, ``grace`` seconds to do so; returns its exit code."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._exited()
        return await self.kill()

    async def kill(self) -> int:
        """Ends it at once, if it has not ended; returns its exit code (-9: killed)."""
        self._process.kill()
        code = await self._exited()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        return code

    async def _exited(self) -> int:
        """The exit code, found without a thread: where none is left, a process may be lost too."""
        while (code := self._process.poll()) is None:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)
        return code


class Backoff:
    """How long to wait before a lost process is followed by another. Pure.

    Each wait is twice the one before, up to a bound; one that ran steadily starts that anew.
    """

    def __init__(self) -> None:
        self._wait = FIRST_WAIT

    def ran(self, seconds: float) -> None:
        """One ran for so long, and was lost."""
        if seconds > STEADY:
            self._wait = FIRST_WAIT

    def wait(self) -> float:
        """Seconds to wait now, before another is started."""
        wait, self._wait = self._wait, min(2 * self._wait, LONGEST_WAIT)
        return wait


def end_with_parent() -> None:
    """Ends this process as soon as the one that started it is gone, and leaves signals to that.

    A terminal, and many a supervisor, signals a whole group of processes: whether there is time for
    those who talk is for the parent to say, by what it holds of this process.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end, daemon=True).start()


def _end() -> None:
    os.read(0, 1)
    os._exit(0)
