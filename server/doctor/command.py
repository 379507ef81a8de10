"""``parley doctor``: whether what callers need of this machine and its network is there.

It takes the settings of ``parley serve``, looks at what these lead to, and says in one line each
what is well, or what to do about it. A server that runs already is asked; else its ports are opened
for the length of a check. Everything is bounded: it ends within 15 seconds, but where the system's
look-up of a name takes longer, which nothing can break off.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence

from server import logs
from server.doctor import machine, network
from server.doctor.finding import Finding, Level
from server.settings import ServerSettings, SettingsProblem, load


def main(arguments: Sequence[str]) -> int:
    """Checks and tells; 1 where there is a problem, 2 where the settings are one."""
    try:
        settings = load(arguments)
    except SettingsProblem as problem:
        print(f"parley: {problem}", file=sys.stderr)
        return 2
    logs.configure("error", settings.log_format)
    return asyncio.run(_tell(settings))


async def _tell(settings: ServerSettings) -> int:
    found: Counter[Level] = Counter()
    async for finding in _findings(settings):
        print(finding, flush=True)
        found[finding.level] += 1
    print(f"problems: {found['problem']}, warnings: {found['warning']}")
    return 1 if found["problem"] else 0


async def _findings(settings: ServerSettings) -> AsyncIterator[Finding]:
    running = await network.is_running(settings)
    engine = asyncio.create_task(machine.engine(settings, running))
    yield await network.http_port(settings, running)
    yield machine.secure_context(settings)
    async with network.media(settings, running) as media:
        for finding in await network.udp_ports(settings, media):
            yield finding
        for finding in await network.ice_servers(settings, media[0]):
            yield finding
    yield machine.opus(settings)
    yield machine.clock()
    yield machine.open_files(settings)
    yield await engine
