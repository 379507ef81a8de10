"""Calls that come and go: when all have gone, the server is what it was before they came.

Callers connect by WebRTC and by WebSocket, talk, and hang up or vanish. When as many have come once
more, the server's processes have no file, thread or task more, and no more memory.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from yarl import URL

from server.bench import machine
from server.bench.frames import DIALECTS, GOODBYE, RATE, Speech, masked
from server.bench.webrtc.crowd import Crowd
from server.bench.webrtc.speech import RATE as CALL_RATE
from server.bench.webrtc.speech import speech
from tests.conftest import Tell
from tests.network.simulated import simulated
from tests.serving import Server
from tests.sounds import hibari, resampled

SAID = hibari("One, two, three, four, five, six, seven, eight.", RATE)
SCRIPT = speech(resampled(SAID, RATE, CALL_RATE), 1.0)
REALTIME = DIALECTS["realtime"]
PIECES = Speech(REALTIME, SAID)
CALLS, SOCKETS = 7, 3
"""Of ten callers."""
TALK = 0.2
"""Seconds."""
GRACE = 1
"""Seconds that who vanished is waited for, once missed (8 s)."""
GONE = 20.0
"""Seconds after which those who vanished are gone for sure."""
UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: cGFybGV5IHNvYWsgdGVzdA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@dataclass(frozen=True)
class Held:
    """What the server's processes hold."""

    files: int
    threads: int
    tasks: float
    memory: int

    @classmethod
    def by(cls, server: Server) -> Held:
        family = list(machine.family(server.pid))
        return cls(
            files=sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in family),
            threads=sum(map(machine.threads, family)),
            tasks=server.metric("parley_tasks"),
            memory=sum(map(machine.memory, family)),
        )

    def more_than(self, before: Held) -> dict[str, float]:
        """What must not have grown, and has."""
        grown = {
            "files": self.files - before.files,
            "threads": self.threads - before.threads,
            "tasks": self.tasks - before.tasks,
        }
        return {name: by for name, by in grown.items() if by > 0}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    engine = {"replies": "by_itself", "threshold": 0.0, "input_rate": RATE}
    flags = ("--webrtc.addresses", '["127.0.0.1"]', "--limits.grace", str(GRACE))
    with simulated(tmp_path / "log", *flags, *machine.TAKES_ALL, **engine) as running:
        yield running


def ten(server: Server, crowd: Crowd) -> None:
    """Ten callers, all at once: half of them hang up, the others vanish."""
    calls = [crowd.call() for _ in range(CALLS)]
    sockets = [connected(server.url) for _ in range(SOCKETS)]
    for number in range(3):
        for caller, ws in enumerate(sockets):
            ws.sendall(PIECES.frame(caller, number))
    crowd.run(time.monotonic() + TALK)
    for number, call in enumerate(calls):
        crowd.part(call, goodbye=number % 2 == 0)
    for number, ws in enumerate(sockets):
        if number % 2 == 0:
            ws.sendall(GOODBYE)
        ws.close()


def connected(url: str) -> socket.socket:
    """A session over a WebSocket, once it has begun."""
    at = URL(url)
    ws = socket.create_connection((at.host, at.port), timeout=15)
    ws.sendall(UPGRADE.format(path=REALTIME.path, host=at.authority).encode())
    ws.sendall(masked(REALTIME.opens.encode()))
    heard = b""
    while REALTIME.started not in heard:
        came = ws.recv(1 << 16)
        assert came, heard
        heard += came
    return ws


def until(true: Callable[[], bool], within: float) -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def soaked(server: Server, callers: int, tell: Tell) -> float:
    """So many callers come and go; returns how many bytes each of the second half left.

    The first half leaves some: an allocator keeps what those had who were there at once.
    """
    crowd = Crowd(server.url, SCRIPT, CALLS)
    held = []
    for _ in range(2):
        for _ in range(0, callers // 2, CALLS + SOCKETS):
            ten(server, crowd)
        settled(server)
        held.append(Held.by(server))
    before, after = held
    until(lambda: not Held.by(server).more_than(before), 20)
    grown = (after.memory - before.memory) / (callers // 2)
    tell(
        f"after {callers // 2} callers {before}, after {callers} {after}; memory grew by "
        f"{grown / 1e3:.1f} kB a caller between"
    )
    return grown


def settled(server: Server) -> None:
    """Returns when everybody has gone, and what they left has been looked for."""
    until(lambda: server.metric("parley_sessions_active") == 0, GONE)
    time.sleep(3.0)


@pytest.mark.timeout(180)
def test_a_hundred_callers_leave_nothing_behind(server: Server, tell: Tell) -> None:
    assert soaked(server, 100, tell) < 200_000


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_thousand_callers_leave_nothing_behind(server: Server, tell: Tell) -> None:
    assert soaked(server, 1_000, tell) < 5_000
