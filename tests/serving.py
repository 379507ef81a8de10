"""A real ``parley serve`` for tests: the installed command in a process of its own.

What is seen of it is what an operator sees: the line that says where it is, its figures, its log,
and what the kernel tells of its processes. A test module shares the server of the default engine
by importing the fixture :func:`server`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from engine.weights import Paths

COMMAND = Path(sys.executable).with_name("parley")


class Server:
    """A running server; a context manager that ends it.

    Args:
        flags: of ``parley serve``, besides a free port.
        log: the file that takes what it writes to standard error.
        environment: added to this process's own, without its ``PARLEY_*`` settings.
        within: seconds until it has to be ready.
        under: a command that runs it (``ip netns exec NAME``).

    Attributes:
        url: where it answers, with a slash at the end (and its token, where it asks for one).
        pid: of the server; ``engine_pid`` of its engine's process.
    """

    def __init__(
        self,
        *flags: str,
        log: Path,
        environment: Mapping[str, str] | None = None,
        within: float = 60.0,
        under: Sequence[str] = (),
    ) -> None:
        self.log = log
        with log.open("wb") as told:
            self._process = subprocess.Popen(
                [*under, COMMAND, "serve", "--port", "0", *flags],
                stdout=subprocess.PIPE,
                stderr=told,
                env=_own_environment() | dict(environment or {}),
            )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout
        self.pid = self._process.pid
        try:
            self.url = self._address(within)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def engine_pid(self) -> int:
        """The one process that the server started."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        (pid,) = (int(pid) for task in tasks for pid in (task / "children").read_text().split())
        return pid

    def metric(self, name: str, **labels: str) -> float:
        """A figure of ``/metrics``, summed over the labels not given; 0 where there is none."""
        return sum(
            sample.value
            for sample in self._samples()
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def buckets(self, name: str) -> dict[float, float]:
        """Of the histogram ``name``: how many values were at most each bound."""
        return {
            float(sample.labels["le"]): sample.value
            for sample in self._samples()
            if sample.name == f"{name}_bucket"
        }

    def log_lines(self) -> list[dict[str, Any]]:
        """What it logged so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def stop(self, within: float = 10.0) -> int:
        """Asks it to end by SIGTERM; returns its exit status.

        Raises:
            subprocess.TimeoutExpired: it did not end ``within`` seconds.
        """
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(within)

    def kill(self) -> None:
        """Ends it at once, if it has not ended; its engine follows by itself."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _samples(self) -> Iterator[Sample]:
        with urlopen(urljoin(self.url, "metrics"), timeout=5) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                yield from family.samples

    def _address(self, within: float) -> str:
        """Waits for the line that says where it is; a server that ends instead closes its pipe."""
        readable, _, _ = select.select([self._pipe], [], [], within)
        line = self._pipe.readline().decode() if readable else ""
        if not line.startswith("Ready in "):
            raise RuntimeError(f"not ready in {within} s or ended: {line}{self.log.read_text()}")
        return line.split()[-1]


@pytest.fixture(scope="module")
def server(weights: Paths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the default engine, shared by the tests of a module."""
    with Server(log=tmp_path_factory.mktemp("server") / "log") as running:
        yield running


def _own_environment() -> dict[str, str]:
    """This process's, less the settings of whoever runs the tests; the weights' place stays."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PARLEY_") or name == "PARLEY_CACHE"
    }
