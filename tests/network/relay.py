"""A network of any quality, in userland: UDP between callers and a service on this machine.

:class:`Weather` decides what becomes of each packet, the same for the same seed; :class:`Relay` is
the thread that does it, with a socket of its own towards the service for each caller.
"""

from __future__ import annotations

import heapq
import itertools
import random
import selectors
import socket
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

Address = tuple[str, int]
_LONGEST = 2_048
_TURN = 0.05
"""Seconds after which the thread looks whether it is wanted any more."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What happens to packets, each way.

    ``loss`` is the share that is lost, ``burst`` of them in a row; ``jitter`` the longest delay, in
    seconds; ``late`` the share that comes behind the packet after it, ``twice`` that which comes
    twice.
    """

    loss: float = 0.0
    burst: int = 1
    jitter: float = 0.0
    late: float = 0.0
    twice: float = 0.0


CLEAR = Conditions()


class Weather:
    """The fate of packets under ``conditions``, which may change."""

    def __init__(self, conditions: Conditions, seed: int) -> None:
        self.conditions = conditions
        self._random = random.Random(seed)
        self._to_lose = 0

    def lose(self, packets: int) -> None:
        """The next ``packets`` do not arrive."""
        self._to_lose = packets

    def fate(self) -> list[float]:
        """The delays, in seconds, with which the next packet arrives; none: it does not."""
        now, chance = self.conditions, self._random.random
        if not self._to_lose and chance() < now.loss / now.burst:
            self._to_lose = now.burst
        if self._to_lose:
            self._to_lose -= 1
            return []
        delay = now.jitter * chance() + (0.03 if chance() < now.late else 0.0)
        return [delay, delay + 0.005] if chance() < now.twice else [delay]


class Relay:
    """Passes on what reaches it; a context manager.

    Args:
        service: where packets go.
        conditions: of the network.
        seed: of its chances.

    Attributes:
        port: where callers send.
        dark: nothing passes while it is True.
        lost: packets that it did not pass on.
    """

    def __init__(
        self, service: Address, conditions: Conditions | None = None, seed: int = 1
    ) -> None:
        self.dark = False
        self.lost = 0
        self.weathers = [Weather(conditions or Conditions(), seed + way) for way in (0, 1)]
        self._service = service
        self._inside = _bound()
        self.port: int = self._inside.getsockname()[1]
        self._outside: dict[Address, socket.socket] = {}
        self._callers: dict[socket.socket, Address] = {}
        self._cut: set[Address] = set()
        self._waiting: list[tuple[float, int, socket.socket, Address, bytes]] = []
        self._numbers = itertools.count()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._inside, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._held_until = 0.0
        self._over = False
        self._thread = threading.Thread(target=self._run, name="relay")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over = True
        self._thread.join()
        for each in (self._inside, *self._outside.values()):
            each.close()
        self._selector.close()

    def becomes(self, conditions: Conditions) -> None:
        """Changes the network."""
        for weather in self.weathers:
            weather.conditions = conditions

    def lose(self, packets: int) -> None:
        """Loses the next ``packets`` of each way."""
        for weather in self.weathers:
            weather.lose(packets)

    def hold(self, seconds: float) -> None:
        """Holds all that comes for so long, and then passes it on at once."""
        self._held_until = time.monotonic() + seconds

    def move(self) -> None:
        """Callers send from another address from now on; nothing comes through the one before."""
        with self._lock:
            for caller in tuple(self._outside):
                self._forget(caller)

    def cut(self) -> None:
        """Nothing of today's callers passes any more; of those who come anew it does."""
        with self._lock:
            for caller in tuple(self._outside):
                self._forget(caller)
                self._cut.add(caller)

    def _run(self) -> None:
        while not self._over:
            due = self._waiting[0][0] - time.monotonic() if self._waiting else _TURN
            for key, _ in self._selector.select(max(0.0, min(due, _TURN))):
                with self._lock:
                    self._take(key.fileobj)
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, by, to, data = heapq.heappop(self._waiting)
                self._send(by, to, data)

    def _take(self, at: object) -> None:
        assert isinstance(at, socket.socket)
        if at.fileno() < 0:
            return
        try:
            data, sender = at.recvfrom(_LONGEST)
        except OSError:  # nobody listens at the other end
            return
        if at is self._inside:
            if sender in self._cut:
                self.lost += 1
                return
            by, to, weather = self._way_out(sender), self._service, self.weathers[0]
        else:
            by, to, weather = self._inside, self._callers[at], self.weathers[1]
        delays = [] if self.dark else weather.fate()
        self.lost += not delays
        for delay in delays:
            at = max(time.monotonic() + delay, self._held_until)
            entry = (at, next(self._numbers), by, to, data)
            heapq.heappush(self._waiting, entry)

    def _send(self, by: socket.socket, to: Address, data: bytes) -> None:
        if by.fileno() >= 0:
            by.sendto(data, to)

    def _way_out(self, caller: Address) -> socket.socket:
        if caller not in self._outside:
            self._outside[caller] = way = _bound()
            self._callers[way] = caller
            self._selector.register(way, selectors.EVENT_READ)
        return self._outside[caller]

    def _forget(self, caller: Address) -> None:
        way = self._outside.pop(caller)
        del self._callers[way]
        self._selector.unregister(way)
        way.close()


def _bound() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    made.setblocking(False)
    return made
