"""What a bench ran on, and what its processes took: cores, load, CPU, memory, stolen time."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PATIENCE = 60.0
TAKES_ALL = ("--limits.load", "1")
"""Flags of a server that takes callers however much it has to do."""


def announce() -> None:
    """Prints the processor, its cores and their load."""
    print(f"{_processor()}, {os.cpu_count()} cores, {_load()}")


def conclude(before: list[int]) -> None:
    """Prints the load, and how much CPU time was stolen since :func:`cpu_times` gave ``before``."""
    print(f"stolen CPU time {100 * stolen(before, cpu_times()):.1f} %, {_load()}")


def cpu_times() -> list[int]:
    """Ticks since boot by kind (proc(5), ``/proc/stat``); the eighth is stolen time."""
    return [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


def stolen(before: list[int], after: list[int]) -> float:
    """Share of CPU time that the hypervisor took."""
    passed = [now - then for then, now in zip(before, after, strict=True)]
    return passed[7] / max(1, sum(passed))


@asynccontextmanager
async def started(*command: str) -> AsyncIterator[tuple[str, int]]:
    """A server in a process of its own, which prints its URL last on a line when it is ready.

    Gives its URL and process id.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", *command, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_PATIENCE):
            line = await process.stdout.readline()
        yield line.decode().split()[-1], process.pid
    finally:
        process.terminate()
        await process.wait()


def parley(engine: str, *flags: str) -> tuple[str, ...]:
    """The command of a ``parley serve`` with ``flags`` and the simulated engine of options
    ``engine``, JSON.
    """
    command = ("-c", "import sys; from server.cli import main; sys.exit(main())", "serve")
    told = ("--engine.name", "simulated", "--engine.options", engine)
    return (*command, "--log-level", "warning", "--port", "0", *told, *flags)


def family(pid: int) -> Iterator[int]:
    """The process and its children."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in _told(pid, f"task/{task.name}/children").split():
            yield from family(int(child))


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used (proc(5), ``stat``); none of one that has ended."""
    fields = _told(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def memory(pid: int) -> int:
    """Bytes of a process that are in memory; none of one that has ended."""
    after = _told(pid, "status").partition("VmRSS:")[2].split()
    return 1024 * int(after[0]) if after else 0


def threads(pid: int) -> int:
    """Threads of a process; none of one that has ended."""
    after = _told(pid, "status").partition("Threads:")[2].split()
    return int(after[0]) if after else 0


def pin(pid: int, core: int) -> None:
    """Has all threads of a process run on one core, and those that they start."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), {core})


def hurry(niceness: int) -> str:
    """Has this process go before others, where that is allowed; tells its niceness."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    return f"niceness {os.getpriority(os.PRIO_PROCESS, 0)}"


def _processor() -> str:
    """Its name (proc(5), ``/proc/cpuinfo``), or its kind where that does not tell."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()


def _told(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _load() -> str:
    return "load average {:.1f} {:.1f} {:.1f}".format(*os.getloadavg())
