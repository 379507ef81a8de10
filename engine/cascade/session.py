"""One caller's stay in the cascade: the order of things.

Sound and orders wait in one queue and are taken from it one by one, so an order acts after the
sound that came before it. Taking never waits: what needs time (models, playout) runs in tasks of
the two halves, the listener and the replies, and comes back as events. Here the halves meet.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from engine.audio.pcm import floats
from engine.cascade.briefing import Briefing, SaidTurns
from engine.cascade.draft import Drafts
from engine.cascade.listener import Listener
from engine.cascade.replies import Replies
from engine.contract import (
    Applied,
    Cancel,
    Clear,
    Close,
    Closed,
    CloseReason,
    Commit,
    Context,
    Fault,
    Played,
    Refused,
    ReplyAudio,
    Respond,
    SessionEnded,
    Settings,
    TurnDetection,
)
from engine.intake import Gap, Intake
from engine.outbox import Outbox
from engine.turns.echo import EchoGuard
from engine.turns.machine import CHUNK, RATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.cascade.chain import Chain
    from engine.contract import Event, Order, Samples, Sound
    from engine.intake import Entry

_ROOM = 10 * RATE
"""Samples of sound that may wait: what is older than ten seconds is not worth hearing."""
_AT_ONCE = 8 * CHUNK
"""Samples heard before others get their turn: some 4 ms of work."""
_FIRST_SETTINGS = 0.5
"""Seconds that the first settings are waited for."""
_NO_SOUND = 2.0
"""Seconds without any sound after which an open turn ends: the microphone is gone or muted."""


class CascadeSession:
    """One caller (:class:`engine.contract.EngineSession`).

    Args:
        closed: is called once, when the session is over.
    """

    def __init__(
        self,
        chain: Chain,
        caller: str,
        *,
        minimum_silence: int,
        history: int,
        ahead: float,
        closed: Callable[[CascadeSession], None],
    ) -> None:
        self._voices = chain.voice.voices
        self._when_closed = closed
        self._intake = Intake(_ROOM)
        self._arrived = asyncio.Event()
        self._configured = asyncio.Event()
        self._heard_at = time.monotonic()
        self._outbox = Outbox()
        self._settings = Settings(id="", turns=TurnDetection())
        self._finishing = False
        self._ending: asyncio.Task[None] | None = None
        self._guard = EchoGuard(RATE, chain.voice.rate)
        turns = SaidTurns()
        self._briefing = Briefing(turns, self._voices, caller, history)
        self._drafts = Drafts(chain, self._briefing)
        self._listener = Listener(
            chain, self._emit, self._guard, turns, self._drafts, minimum_silence
        )
        self._replies = Replies(chain, self._emit, turns, self._briefing, self._drafts, ahead)
        self._task = asyncio.create_task(self._run())

    @property
    def room(self) -> int:
        """Input samples that can be offered now without any being dropped."""
        return self._intake.room

    def hear(self, pcm: Sound) -> int:
        """Offers sound at 16 kHz; returns the room that is left.

        Raises:
            SessionEnded: the session is over.
        """
        self._put(floats(pcm))
        return self._intake.room

    def order(self, order: Order) -> None:
        """Gives an order, to act after everything offered before it.

        Raises:
            SessionEnded: the session is over.
        """
        self._put(order)
        if isinstance(order, Settings | Close):
            self._configured.set()

    def listen(self, told: Callable[[Event], None]) -> None:
        """Has every event told, in order, up to and including ``Closed``. One listener only."""
        self._outbox.listen(told)

    async def close(self, reason: CloseReason = "closed") -> None:
        """Ends the session at once, in the engine's name."""
        if not self._finishing:
            self._task.cancel()
        await asyncio.wait([self._task])
        await self._finish(reason)

    def _put(self, entry: Samples | Order) -> None:
        if self._outbox.closed is not None:
            raise SessionEnded(self._outbox.closed)
        self._intake.put(entry)
        self._arrived.set()

    async def _run(self) -> None:
        try:
            await self._begin()
            while True:
                entry = self._intake.pop(_AT_ONCE)
                if isinstance(entry, Close):
                    break
                if entry is None:
                    await self._wait()
                else:
                    self._take(entry)
                    await asyncio.sleep(0)
        except Exception as error:
            message = f"the session failed: {type(error).__name__}"
            await self._finish("engine_failed", Fault(code="engine_failed", message=message))
        else:
            await self._finish("closed")

    async def _begin(self) -> None:
        """No turn is judged before the first settings, which may come behind the first sound."""
        try:
            async with asyncio.timeout(_FIRST_SETTINGS):
                await self._configured.wait()
        except TimeoutError:
            return
        if (settings := self._intake.take_settings()) is not None:
            self._configure(settings)

    async def _wait(self) -> None:
        self._arrived.clear()
        open_since = self._heard_at if self._listener.waits_for_sound else None
        limit = None if open_since is None else open_since + _NO_SOUND - time.monotonic()
        try:
            async with asyncio.timeout(limit):
                await self._arrived.wait()
        except TimeoutError:
            self._listener.expire()

    def _take(self, entry: Entry) -> None:
        match entry:
            case np.ndarray():
                self._heard_at = time.monotonic()
                self._listener.hear(entry)
            case Gap(samples):
                self._listener.skip(samples)
            case Settings():
                self._configure(entry)
            case Context():
                self._briefing.learn(entry)
                if self._replies.idle and not self._listener.waits_for_sound:
                    self._drafts.rest()
            case Respond():
                self._replies.respond(entry)
            case Cancel(reply=reply):
                self._guard.stopped(reply)
                self._replies.cancel(reply)
            case Played(reply=reply, samples=samples):
                self._guard.played(reply, samples, self._listener.position)
                self._replies.played(reply, samples)
            case Commit(turn=turn):
                self._listener.commit(turn)
            case Clear():
                self._listener.clear()

    def _configure(self, settings: Settings) -> None:
        if settings.voice and self._voices and settings.voice not in self._voices:
            expected = ", ".join(self._voices)
            message = f"voice: expected one of {expected}, got {settings.voice}"
            self._emit(Refused(id=settings.id, param="voice", message=message))
            return
        effective = replace(
            settings,
            voice=settings.voice or next(iter(self._voices), ""),
            turns=settings.turns or self._settings.turns,
        )
        self._settings = effective
        self._listener.configure(effective)
        self._briefing.configure(effective)
        self._drafts.wanted = effective.replies
        self._emit(Applied(id=settings.id, effective=effective))

    def _emit(self, event: Event) -> None:
        if isinstance(event, ReplyAudio):
            self._guard.handed_out(event.reply, floats(event.pcm), self._listener.position)
        if not self._outbox.put(event) and self._ending is None:
            self._ending = asyncio.create_task(self.close("engine_failed"))

    async def _finish(self, reason: CloseReason, fault: Fault | None = None) -> None:
        if self._finishing:
            return
        self._finishing = True
        await self._replies.close()
        await self._drafts.close()
        await self._listener.close()
        closed = Closed(
            reason=reason,
            heard=self._intake.offered,
            dropped=self._intake.dropped,
            message=fault.message if fault else "",
        )
        self._outbox.end(closed, fault)
        self._when_closed(self)
