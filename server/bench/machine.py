"""What a bench ran on: cores, load, and the CPU time that a hypervisor took meanwhile."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def announce() -> None:
    """Prints the processor, its cores and their load."""
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {_load()}")


def conclude(before: list[int]) -> None:
    """Prints the load, and how much CPU time was stolen since :func:`cpu_times` gave ``before``."""
    print(f"stolen CPU time {100 * _stolen(before, cpu_times()):.1f} %, {_load()}")


def cpu_times() -> list[int]:
    """Ticks since boot by kind (proc(5), ``/proc/stat``); the eighth is stolen time."""
    return [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


def _load() -> str:
    return "load average {:.1f} {:.1f} {:.1f}".format(*os.getloadavg())


def _stolen(before: list[int], after: list[int]) -> float:
    """Share of CPU time that the hypervisor took."""
    passed = [now - then for then, now in zip(before, after, strict=True)]
    return passed[7] / max(1, sum(passed))
