"""All callers of one level, on one thread: an epoll over their sockets, and the clock of each."""

from __future__ import annotations

import gc
import heapq
import http.client
import json
import select
import time

from yarl import URL

from server.bench.webrtc.call import Call
from server.bench.webrtc.dtls import Identity
from server.bench.webrtc.found import LATEST, Found, found
from server.bench.webrtc.speech import SECONDS, Speech

_PATIENCE = 10.0
"""Seconds that a call may take to connect."""
_GOLDEN = 0.6180339887
_GLANCE = 0.01
"""Seconds between looks at what connects."""


class CannotConnect(Exception):
    """A call did not come about."""


class Refused(Exception):
    """The server takes no more callers now; the message is its own."""


class Crowd:
    """Callers of the server at ``url``, each of whom says ``script`` from elsewhere on.

    ``late`` is how late each packet left, in seconds, while it was counted.
    """

    def __init__(self, url: str, script: Speech, callers: int) -> None:
        self._url = URL(url)
        self._script = script
        self._apart = len(script.packets) // max(1, callers)
        self._identity = Identity()
        self._calls: dict[int, Call] = {}
        self._made = 0
        self._due: list[tuple[float, int]] = []
        self._poll = select.epoll()
        self._counts = False
        self.late: list[float] = []

    def call(self) -> Call:
        """Makes one call more, who begins to talk.

        Raises:
            Refused: there is too much to do, or no place.
            CannotConnect: it was refused for another reason, or takes too long.
        """
        number, self._made = self._made, self._made + 1
        call = Call(self._script, number * self._apart % len(self._script.packets), self._identity)
        try:
            call.answered(self._posted(call.offer()))
        except BaseException:
            call.end(goodbye=False)
            raise
        self._poll.register(call.socket, select.EPOLLIN)
        self._calls[call.socket.fileno()] = call
        patience = time.monotonic() + _PATIENCE
        while not call.connected:
            now = time.monotonic()
            if now > patience:
                raise CannotConnect(f"a call did not connect within {_PATIENCE:g} s")
            call.urge(now)
            self.run(now + _GLANCE)
        phase = number * _GOLDEN % 1 * SECONDS
        heapq.heappush(self._due, (time.monotonic() + phase, call.socket.fileno()))
        return call

    def run(self, until: float) -> None:
        """They talk, until that time of the monotonic clock."""
        while (now := time.monotonic()) < until:
            while self._due and self._due[0][0] <= now:
                due, call = self._due[0]
                heapq.heapreplace(self._due, (due + SECONDS, call))
                self._calls[call].say()
                if self._counts:
                    self.late.append(now - due)
                now = time.monotonic()
            next_ = min(until, self._due[0][0]) if self._due else until
            for socket, _ in self._poll.poll(max(0.0, next_ - now)):
                self._calls[socket].receive()

    def talk(self, seconds: float) -> None:
        """They talk on, and what they say and hear is counted."""
        self._count(True)
        gc.disable()  # A pass over all that is kept would make them late.
        self.run(time.monotonic() + seconds)
        gc.enable()
        self._count(False)

    def found(self) -> list[Found]:
        """Of each caller, what came back of what they said."""
        apart = self._apart * SECONDS
        latest = min(LATEST, 0.9 * apart)
        return [found(self._script, c.said, c.came, latest) for c in self._calls.values()]

    def part(self, call: Call, *, goodbye: bool) -> None:
        """One leaves, with or without a word."""
        number = call.socket.fileno()
        self._due = [(due, other) for due, other in self._due if other != number]
        heapq.heapify(self._due)
        del self._calls[number]
        call.end(goodbye=goodbye)

    def leave(self) -> None:
        """All hang up; what was counted is kept."""
        for call in self._calls.values():
            call.end(goodbye=True)
        self._due.clear()
        self._poll.close()

    def _count(self, counts: bool) -> None:
        self._counts = counts
        for call in self._calls.values():
            call.counts = counts

    def _posted(self, offer: str) -> str:
        connection = http.client.HTTPConnection(self._url.host or "", self._url.port)
        connection.request(
            "POST",
            "/v1/realtime/calls?model=gpt-realtime",
            offer.encode(),
            {"Content-Type": "application/sdp"},
        )
        response = connection.getresponse()
        answer = response.read().decode()
        connection.close()
        if response.status == http.HTTPStatus.SERVICE_UNAVAILABLE:
            raise Refused(json.loads(answer)["error"]["message"])
        if response.status != http.HTTPStatus.CREATED:
            raise CannotConnect(f"a call was refused with {response.status}: {answer}")
        return answer
