"""What clients send a session: events on their way to it, in order and bounded.

An event is taken as it is brought here, unless something has to be waited for: the answer to
settings or a commit that it may depend on, room in the engine for the sound before it, or that its
caller's sound of this minute is paid for. A socket is read no further meanwhile, and so slows its
client down.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from server.requests import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from server.audience import Audience, Subscriber
    from server.places import Place
    from server.presence import Presence
    from server.protocol.adapter import Adapter
    from server.protocol.adapter import Place as Where
    from server.protocol.wire import Raw
    from server.record import Record
    from server.session import Session

MOST = 256
"""Events that may wait for settings, or a commit, to be answered."""
PATIENCE = 3_000_000_000
"""Nanoseconds they wait. An engine that does not answer makes no reply either, which is told."""
_STEP = 0.05
"""Seconds of room from which on an engine that was full is given more at once."""
_COUNTED = 4000
"""Samples of sound that are counted together: a quarter of a second at 16 kHz."""


class Inbox:
    """The events of one session's clients.

    Args:
        session: acts on them, and lets time pass before each.
        adapter: reads them.
        audience: is answered.
        presence: hears that the caller is there.
        place: counts the sound.
        record: takes note.
        leg: the sound comes another way, and cannot wait.
        failed: is told what went wrong.
    """

    __slots__ = (
        "_adapter", "_answered", "_audience", "_failed", "_going_on", "_in_debt", "_leg", "_place",
        "_presence", "_record", "_roomy", "_sender", "_session", "_sound", "_waiting", "_where",
        "asking", "reads_on", "received", "waits",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        adapter: Adapter,
        audience: Audience,
        presence: Presence,
        place: Place,
        record: Record,
        *,
        leg: bool,
        failed: Callable[[Exception], None],
    ) -> None:
        self.asking: tuple[Subscriber, ...] = ()
        """Who sent the latest event that was taken."""
        self.received = time.monotonic_ns()
        """When the latest came."""
        self.waits = False
        """Whether what comes next has to wait."""
        self.reads_on = True
        """Whether there is nothing to wait for (:meth:`wait_for_room`)."""
        self._session = session
        self._adapter = adapter
        self._sound = adapter.input
        self._audience = audience
        self._presence = presence
        self._place = place
        self._record = record
        self._leg = leg
        self._failed = failed
        self._waiting: deque[tuple[Raw, Subscriber, Where]] = deque()
        self._sender: Subscriber | None = None
        self._where: Where = "client"
        self._answered = self.received
        self._going_on: asyncio.Handle | None = None
        self._in_debt = False
        self._roomy = asyncio.Event()

    async def wait_for_room(self) -> None:
        """Returns when all that came was taken, and its sound heard and paid for; or at the end."""
        while not self.reads_on:
            self._roomy.clear()
            await self._roomy.wait()

    def receive(self, raw: Raw, sender: Subscriber) -> None:
        """Takes a client's event; only its sender is told what was wrong with it."""
        self.received = time.monotonic_ns()
        try:
            if sender is not self._sender:
                self._sender, self._where = sender, self._audience.place(sender)
                self._presence.heard_of(sender)
            if self.waits or not self._adapter.hear(raw, self._where):
                self._queue(raw, sender)
            elif self._sound.behind or self._sound.heard >= _COUNTED:
                self.take(self.received)
        except Exception as error:
            self._failed(error)

    def look(self, now: int) -> None:
        """Counts the sound, lets time pass and takes what waits, at ``now`` ns."""
        self._count(now)
        if self._going_on is None:
            self.take(now)

    def take(self, now: int) -> None:
        """Takes what waits, as far as that goes at ``now`` ns, and goes on by itself where it can.

        Time passes for the session, too.
        """
        if self._going_on is not None:
            self._going_on.cancel()
            self._going_on = None
        session, sound = self._session, self._sound
        try:
            session.tick(now)
            if sound.behind:
                sound.pump()
            if self._waiting:
                self._take(now)
        except Exception as error:
            self._failed(error)
            return
        if sound.heard >= _COUNTED:
            self._count(now)
        behind = not session.ended and (sound.behind or bool(self._waiting))
        self.waits = behind or session.ended or session.waiting
        if self.reads_on != (not behind and not self._in_debt):
            self._read(on=not self.reads_on)
        if behind and sound.behind and session.room > _STEP * session.info.input_rate:
            # The engine takes more at once; others have their turn before.
            self._going_on = asyncio.get_running_loop().call_soon(self._go_on)
        self._presence.wake()

    def close(self) -> None:
        """The session has ended: nobody need wait."""
        self._read(on=True)

    def _read(self, *, on: bool) -> None:
        if on and not self.reads_on:
            self._roomy.set()
        self.reads_on = on

    def _count(self, now: int) -> None:
        """Counts the sound heard; that of a call cannot wait."""
        self._sound.heard = 0
        heard = self._session.heard.end / self._session.info.input_rate
        self._in_debt = self._place.heard(heard, now) > 0 and not self._leg

    def _go_on(self) -> None:
        self.take(time.monotonic_ns())

    def _queue(self, raw: Raw, sender: Subscriber) -> None:
        if len(self._waiting) == MOST:
            self._record.dropped_event()
            message = f"Expected at most {MOST} events before settings are answered; one dropped."
            error = RequestError("too_many_events", message)
            self._audience.tell([self._adapter.refusal(error)], [sender])
            return
        self._waiting.append((raw, sender, self._where))
        self.take(self.received)

    def _take(self, now: int) -> None:
        session, sound = self._session, self._sound
        while self._waiting and not sound.behind and not session.ended:
            if not session.waiting:
                self._answered = now
            elif now - self._answered < PATIENCE:
                break
            raw, sender, where = self._waiting.popleft()
            self.asking = (sender,)
            if self._adapter.hear(raw, where):
                continue
            if answers := self._adapter.receive(raw, where):
                self._audience.tell(answers, [sender])
