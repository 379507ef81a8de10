"""``parley talk`` as people run it: the installed command, in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.serving import COMMAND

CONNECTED = r"\(connected to \S+\)"


class Talk:
    """A running client; a context manager that ends it.

    Args:
        arguments: of ``parley talk``.
        environment: added to this process's own, without its ``PARLEY_*``.

    Attributes:
        lines: what it has written to its standard output.
    """

    def __init__(
        self, *arguments: str | Path, environment: Mapping[str, str] | None = None
    ) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
        self._process = subprocess.Popen(
            [COMMAND, "talk", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=own | dict(environment or {}),
        )
        self.lines: list[str] = []
        self._came = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def line(self, pattern: str, within: float = 30.0) -> str:
        """The first line that matches, once it is there."""
        with self._came:
            found = self._came.wait_for(lambda: self._match(pattern), within)
        assert found, f"no line like {pattern!r} within {within} s: {self.lines}"
        return found

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def end(self, within: float = 60.0) -> tuple[int, str]:
        """Waits for its end: the exit status, and what it wrote to standard error."""
        status = self._process.wait(within)
        self._reader.join()
        assert self._process.stderr is not None
        return status, self._process.stderr.read()

    def said_by(self, who: str) -> str:
        """Every caption of ``who``."""
        prefix = f"{who}: "
        return " ".join(line.removeprefix(prefix) for line in self.lines if line.startswith(prefix))

    def _match(self, pattern: str) -> str | None:
        return next((line for line in self.lines if re.fullmatch(pattern, line)), None)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._came:
                self.lines.append(line.rstrip("\n"))
                self._came.notify_all()
