"""Lines of an engine's process: every one arrives, under a name of ours, and breaks nothing."""

from __future__ import annotations

import json
import subprocess
import sys

WRITER = """
from engine.remote.logs import write
from engine.remote.wire import Logged
from server import logs

logs.configure("debug", "json")
for level in (0, 5, 10, 25, 35, 50, 70):
    write(Logged(level, "engine.remote.logs", "it ran", {"library": "numba", "level": level}))
write(Logged(20, "engine.remote.host", "it ran", {"event": 1, "logger": 2, "samples": 480}))
"""

FORWARDER = """
import asyncio, logging
import msgspec, structlog
from engine.remote import logs

async def main():
    lines = []
    logs.forward(lines.append, debug=False)
    logging.getLogger("library").log(35, "the quick canary")
    structlog.get_logger("library.part").error("the quick canary", said="the quick canary")
    structlog.get_logger("engine.outside").info("it ran", samples=480)
    print(msgspec.json.encode([msgspec.structs.asdict(line) for line in lines]).decode())

asyncio.run(main())
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return told


def test_a_line_of_any_level_and_with_any_field_is_written() -> None:
    told = [json.loads(line) for line in run(WRITER).stderr.splitlines()]
    assert [line["level"] for line in told[:-1]] == [
        *("debug", "debug", "debug", "info", "warning", "critical", "critical")
    ]
    assert {line["library"] for line in told[:-1]} == {"numba"}
    assert told[-1]["samples"] == 480


def test_a_librarys_line_leaves_under_our_name_without_its_message() -> None:
    told = run(FORWARDER)
    assert "canary" not in told.stdout + told.stderr
    plain, structured, ours = json.loads(told.stdout)
    assert {plain["logger"], structured["logger"]} == {"engine.remote.logs"}
    assert plain["level"] == 35
    assert plain["fields"]["library"] == "library"
    assert structured["fields"] == {"library": "library.part"}
    assert (ours["event"], ours["fields"]) == ("it ran", {"samples": 480})
