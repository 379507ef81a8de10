"""How a caller is there: by one connection at a time, and for a while by none.

A connection brings the caller's events and sound, and takes the replies'. It may be lost without a
word, or another one take its place before that is noticed; the session goes on all the while. What
was played since the caller's last sign of life was not heard, and is played again to whoever comes
back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeAlias

from engine.audio.pcm import floats
from engine.audio.resample import Resampler
from server.audience import Audience, Subscriber
from server.happenings import Happening, KeyPressed
from server.pacer import Line, Pacer
from server.playout import Paced, Playout
from server.record import Record
from server.resume import Tokens
from server.session import Session
from server.transport.leg import Leg

Tenure: TypeAlias = asyncio.Future[None]
"""A connection's time: done when it is over."""


class Presence:
    """One caller's connections to a session.

    Args:
        session: that it goes on with.
        playout: its replies'.
        audience: who is sent its events.
        tokens: what leads back to it.
        pacer: hands out frames.
        record: takes note.
        live: whether its sound is one stream, which waits for nobody.
        failed: is told what went wrong.
        tell: hears of the keys that the caller presses.
    """

    def __init__(
        self,
        session: Session,
        playout: Playout,
        audience: Audience,
        tokens: Tokens,
        pacer: Pacer,
        record: Record,
        *,
        live: bool,
        failed: Callable[[Exception], None],
        tell: Callable[[Happening], None],
    ) -> None:
        self.lost_at: int | None = None
        """When (ns, monotonic) the caller was lost, while that is so."""
        self._session = session
        self._playout = playout
        self._audience = audience
        self._tokens = tokens
        self._pacer = pacer
        self._record = record
        self._real_time = session.info.real_time
        self._rewinds = not live and not self._real_time
        self._failed = failed
        self._tell = tell
        self.worked = False
        """Whether a connection of the caller's has worked so far."""
        self._tenure: Tenure | None = None
        self._client: Subscriber | None = None
        self._token = ""  # the newest connection's
        self._leg: Leg | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._line: Line | None = None
        self._heard_at: int | None = None  # the latest sign of life of the connection before

    @property
    def began(self) -> bool:
        """Whether the caller has been there at all."""
        return self._tenure is not None

    def attend(self, client: Subscriber | None, after: str = "") -> Tenure:
        """The caller is there by a new connection, and sent events as ``client``.

        The connection before it is over. Whoever comes back is told what was missed, behind the
        last event it has (``after``).
        """
        missed: list[bytes] = []
        if self._tenure is not None:
            self.let_go()
            missed = self._audience.missed.tell(after)
            self._record.resumed()
        self._tenure = asyncio.get_running_loop().create_future()
        self._client, self.lost_at = client, None
        self._token = self._tokens.newest
        if client is not None:
            self._audience.join(client, "client", missed)
        return self._tenure

    def carry(self, leg: Leg | None = None) -> None:
        """A connection works: lets the replies sound, and connects the leg that carries them."""
        self.worked = True
        if leg is not None:
            self._leg = leg
            self._tokens.spend(self._token)
            self._hearing = asyncio.create_task(self._hear(leg), name=f"hear {self._session.id}")
            self._hearing.add_done_callback(self._report)
        if isinstance(self._playout, Paced):
            if self._heard_at is not None and self._rewinds:
                self._playout.rewind(self._heard_at)
            self._put_on_line(leg)

    def heard_of(self, sender: Subscriber) -> None:
        """An event came: if it is of the newest connection, that works."""
        if sender is self._client:
            self._tokens.spend(self._token)

    def wake(self) -> None:
        """Has the pacer look at what it carries of this session, if anything."""
        if self._line is not None:
            self._pacer.wake(self._line)

    def lose(self) -> None:
        """The caller is lost, and may come back."""
        self.let_go()
        self.lost_at = time.monotonic_ns()
        self._record.lost()
        if self._real_time and isinstance(self._playout, Paced):
            self._put_on_line(None)  # Its time runs on: what is said now is said to nobody.

    def let_go(self) -> None:
        """Ends the connection's time, if one has it; safe to call twice."""
        self._take_off_line()
        if self._hearing is not None:
            self._hearing.cancel()
        if self._tenure is None or self._tenure.done():
            return
        self._tenure.set_result(None)
        if self._leg is not None:
            self._heard_at = time.monotonic_ns() - round(self._leg.silent * 1e9)
            self._leg = None
        if self._client is not None:
            self._audience.leave(self._client)
            self._client = None
        self._audience.missed.leave()

    def _put_on_line(self, leg: Leg | None) -> None:
        assert isinstance(self._playout, Paced)
        self._take_off_line()
        rate = self._session.info.output_rate
        resampler = None if leg is None else Resampler(rate, leg.output_rate)
        self._line = Line(self._playout, leg, resampler, self._session.on_taken, self._failed)
        self._pacer.add(self._line)

    def _take_off_line(self) -> None:
        if self._line is not None:
            self._pacer.remove(self._line)
            self._line = None

    async def _hear(self, leg: Leg) -> None:
        """Brings the caller's sound to the engine, at its rate."""
        rate = self._session.info.input_rate
        resampler = None if leg.input_rate == rate else Resampler(leg.input_rate, rate)
        async for frame in leg.frames():
            pcm = frame.pcm if resampler is None else resampler.push(floats(frame.pcm))
            self._session.hear(pcm)
            if frame.pressed:
                self._tell(KeyPressed(key=frame.pressed, at=int(time.time())))

    def _report(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._failed(error)
