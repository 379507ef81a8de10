"""A crowd of callers over WebSockets, cheap enough for one core: no library, one loop over sockets.

Each connects when it is due, and once its session has started says a piece of speech every 80 ms
and hears what comes back, with a stop-watch (:mod:`server.bench.heard`).
"""

from __future__ import annotations

import errno
import heapq
import select
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field

from server.bench import frames
from server.bench.frames import SECONDS, Dialect, Message, Speech
from server.bench.heard import Heard, Player

SPACING = 0.025
"""Seconds between two connections."""
_UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: cGFybGV5IGJlbmNoIGR1cA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
_GOLDEN = 0.6180339887
_TOGETHER = 48
"""Sockets that are read before the clock is looked at again, and pieces that are said."""
_READ = 1 << 17
_SETTLE = 5.0
"""Seconds from the last session's start to the first frame that is counted: by then, what so many
starts cost has been caught up with."""
_PATIENCE = 20.0
_LEAVING = 5.0


@dataclass(slots=True, eq=False)
class Caller:
    """One caller; ``phase`` is when in each 80 ms it speaks."""

    number: int
    phase: float
    socket: socket.socket | None = None
    upgraded: bool = False
    started: bool = False
    connected_at: float = 0.0
    unsent: bytes = b""
    unread: bytes = b""
    said: int = 0
    first_said: float = 0.0
    last: int | None = None
    player: Player = field(default_factory=lambda: Player(SECONDS))

    def check(self, mark: tuple[int, int] | None, now: float, heard: Heard) -> None:
        """The frame that came begins with ``mark``."""
        if mark is None:
            heard.silent += heard.counts and self.last is not None
            return
        caller, number = mark
        due = number if self.last is None else (self.last + 1) % frames.PERIOD
        if caller != self.number or number != due:
            heard.wrong += 1
        self.last = number
        if heard.counts:
            heard.back.append(now - self.first_said - number * SECONDS)


class Crowd:
    """All callers of one level.

    Args:
        address: host and port of the server.
        dialect: what they speak.
        speech: what they say.
        callers: how many.
        checks: whether what comes back is their own.
    """

    def __init__(
        self,
        address: tuple[str, int],
        dialect: Dialect,
        speech: Speech,
        callers: int,
        *,
        checks: bool,
    ) -> None:
        self.heard = Heard()
        self._address = address
        self._dialect = dialect
        self._speech = speech
        self._checks = checks
        self._callers = [Caller(n, n * _GOLDEN % 1 * SECONDS) for n in range(callers)]
        self._here: dict[int, Caller] = {}
        self._started = 0
        self._poll = select.epoll()
        begin = time.monotonic()
        self._due = [(begin + n * SPACING, n) for n in range(callers)]

    async def gather(self) -> None:
        """All connect and begin to talk; returns when it has settled."""
        patience = time.monotonic() + len(self._callers) * SPACING + _PATIENCE
        while self._started < len(self._callers) and time.monotonic() < patience:
            self._run(time.monotonic() + 0.05)
        self._run(time.monotonic() + _SETTLE)

    async def talk(self, seconds: float) -> None:
        """They talk on, and what they hear is counted."""
        self.heard.counts = True
        self._run(time.monotonic() + seconds)
        self.heard.counts = False
        self.heard.lost = len(self._callers) - len(self._here)
        self.heard.lost += sum(not caller.started for caller in self._here.values())
        if self._checks:
            self.heard.wrong += sum(caller.last is None for caller in self._here.values())

    async def leave(self) -> None:
        """All hang up; returns when the server has let go of them, or does not."""
        self._due.clear()
        for caller in self._here.values():
            assert caller.socket is not None
            with suppress(OSError):
                caller.socket.sendall(frames.GOODBYE)
        patience = time.monotonic() + _LEAVING
        while self._here and time.monotonic() < patience:
            self._run(time.monotonic() + 0.05)
        for caller in tuple(self._here.values()):
            self._gone(caller)
        self._poll.close()

    def _run(self, until: float) -> None:
        while (now := time.monotonic()) < until:
            for _ in range(_TOGETHER):
                if not self._due or self._due[0][0] > now:
                    break
                now = self._act(*self._due[0])
            next_due = min(until, self._due[0][0]) if self._due else until
            for fd, _ in self._poll.poll(max(0.0, next_due - now), _TOGETHER):
                if caller := self._here.get(fd):
                    self._read(caller)

    def _act(self, due: float, number: int) -> float:
        """What caller ``number`` was to do at ``due``; returns the time."""
        caller, now = self._callers[number], time.monotonic()
        if caller.socket is None:
            heapq.heappop(self._due)
            self._connect(caller, now)
            return now
        if caller.socket.fileno() < 0:
            heapq.heappop(self._due)
            return now
        heapq.heapreplace(self._due, (due + SECONDS, number))
        if self.heard.counts:
            self.heard.own_late.append(now - due)
        if not caller.said:
            caller.first_said = due
        if caller.unsent:
            self.heard.blocked += 1
        self._send(caller, self._speech.frame(number, caller.said))
        caller.said += 1
        return now

    def _connect(self, caller: Caller, now: float) -> None:
        caller.connected_at = now
        caller.socket = socket.create_connection(self._address)
        caller.socket.setblocking(False)
        caller.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._here[caller.socket.fileno()] = caller
        self._poll.register(caller.socket.fileno(), select.EPOLLIN)
        host = "{}:{}".format(*self._address)
        self._send(caller, _UPGRADE.format(path=self._dialect.path, host=host).encode())

    def _send(self, caller: Caller, data: bytes) -> None:
        assert caller.socket is not None
        data = caller.unsent + data
        try:
            sent = caller.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._gone(caller)
            return
        caller.unsent = data[sent:]

    def _read(self, caller: Caller) -> None:
        assert caller.socket is not None
        try:
            came = caller.socket.recv(_READ)
        except OSError as error:
            came = b""
            if error.errno == errno.EAGAIN:
                return
        if not came:
            self._gone(caller)
            return
        data, now, at = caller.unread + came, time.monotonic(), 0
        if not caller.upgraded:
            head, upgraded, rest = data.partition(b"\r\n\r\n")
            data = rest if upgraded else data
            if b" 101 " in head and upgraded:
                caller.upgraded = True
                self._send(caller, frames.masked(self._dialect.opens.encode()))
        if caller.upgraded:
            for message in frames.messages(data):
                self._take(caller, data, message, now)
                at = message.end
        caller.unread = data[at:]

    def _take(self, caller: Caller, data: bytes, message: Message, now: float) -> None:
        if frames.is_delta(data, message):
            caller.player.take(now, self.heard)
            if self._checks:
                caller.check(frames.heard(data, message), now, self.heard)
        elif message.first == frames.CLOSE:
            self._send(caller, frames.GOODBYE)
            self._gone(caller)
        elif not caller.started and self._dialect.started in data[message.start : message.end]:
            caller.started = True
            self._started += 1
            self.heard.connecting.append(now - caller.connected_at)
            due = now - now % SECONDS + SECONDS + caller.phase
            heapq.heappush(self._due, (due, caller.number))
        elif data.startswith(frames.ERROR, message.start):
            self.heard.errors += 1

    def _gone(self, caller: Caller) -> None:
        """Its socket has ended."""
        assert caller.socket is not None
        if self._here.pop(caller.socket.fileno(), None):
            self._poll.unregister(caller.socket.fileno())
            caller.socket.close()
