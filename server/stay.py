"""The shell around one session: it pumps, ticks, and connects it to the caller.

:class:`server.session.Session` decides; this moves what it decided. The protocol's adapter makes
each event once, and every subscriber (a data channel, a socket) is sent the same text. A call's
sound comes and goes by its :class:`~server.transport.leg.Leg`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine

from engine import contract
from engine.contract import EngineInfo, EngineSession, EngineUnavailable
from server import happenings as happen
from server.audience import Audience, Subscriber
from server.caller import Caller
from server.happenings import Happening
from server.inbox import PATIENCE, Inbox
from server.missed import Missed
from server.observe import Metrics, Transport
from server.pacer import Pacer
from server.places import Place
from server.playout import Paced
from server.presence import Presence, Tenure
from server.protocol.adapter import Opening, Refusal
from server.protocol.wire import Raw
from server.record import Record
from server.requests import RequestError
from server.resume import Ticket, Tokens
from server.session import Session
from server.settings import ServerSettings
from server.transport.leg import Leg

TICK = 0.05
"""Seconds between looks at the clock."""
CLOCKED = 0.5
"""The same once an engine with a clock has begun: time passes at its ticks, too."""
GOODBYE = 2.0
"""Seconds the engine has to let go of an ended session."""

_SOUND = (happen.Heard, happen.ReplyAudio, happen.Sounded)
"""Too many to be asked what else they are."""
_FIRST = "first"
"""The ``ref`` of a session's first settings, where they have to hold before it begins."""


class Stay:
    """One caller's stay, from admission to the last event.

    Args:
        ticket: what it is known by, and the token that leads back to it.
        engine: the caller's place.
        info: the engine's facts.
        settings: the operator's.
        opening: how the session begins.
        longest: seconds it lasts at most.
        leg: whether one will carry the sound (else it goes with the events).
        owner: whose session it is, and ``place`` what it uses of the owner's allowance.
        pacer: hands out frames.
        metrics: counts.
    """

    __slots__ = (
        "_active", "_adapter", "_began", "_clocked", "_ended", "_engine", "_gone", "_grace",
        "_idle", "_longest", "_over", "_paced", "_place", "_presence", "_record", "_rest",
        "_settled", "_tasks", "audience", "call_id", "id", "inbox", "live", "look_at", "owner",
        "session", "tokens", "transport",
    )  # fmt: skip

    def __init__(
        self,
        ticket: Ticket,
        engine: EngineSession,
        info: EngineInfo,
        settings: ServerSettings,
        opening: Opening,
        *,
        longest: float,
        leg: bool,
        owner: Caller,
        place: Place,
        pacer: Pacer,
        metrics: Metrics,
    ) -> None:
        self.id, self.call_id = ticket.session, ticket.call
        self.tokens = Tokens(ticket)
        self.owner = owner
        self.live = opening.live
        self.transport: Transport = "webrtc" if leg else "websocket"
        self._engine = engine
        self._idle = settings.limits.idle
        self._grace = settings.limits.grace
        self._longest = longest
        self._place = place
        self._record = Record(metrics, self.transport, self.id)
        self._tasks: list[asyncio.Task[None]] = []
        self._clocked, self._rest = info.tick is not None, TICK
        self.look_at = 0
        """When (ns) it is to be shown the clock next."""
        self._settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = False  # Whether that is done, which is asked for each frame.
        self._began = self._active = time.monotonic_ns()
        playout = opening.playout()
        self._paced = isinstance(playout, Paced)
        self.session = Session(
            self.id,
            engine,
            info,
            playout,
            self._tell,
            opening.settings,
            greeting=settings.greeting,
            live=opening.live,
            now=self._began,
        )
        self._adapter = opening.adapter(self.session)
        self.audience = Audience(self._adapter, Missed(sound=not (playout.paced or info.tick)))
        self._presence = Presence(
            self.session,
            playout,
            self.audience,
            self.tokens,
            pacer,
            self._record,
            live=self.live,
            failed=self._fail,
            tell=self._tell,
        )
        self.inbox = Inbox(
            self.session,
            self._adapter,
            self.audience,
            self._presence,
            place,
            self._record,
            leg=leg,
            failed=self._fail,
        )
        """What clients send."""

    def start(self, done: Callable[[Stay, str], None]) -> None:
        """Runs the session; ``done`` is told of its end, and why."""
        self._record.started(self.call_id)
        self._ended.add_done_callback(lambda ended: done(self, ended.result()))
        self._engine.listen(self._pump)

    async def settle(self) -> None:
        """Lets a live session begin, once the engine has taken its settings; others just do.

        Raises:
            RequestError: the engine refuses them.
            EngineUnavailable: it does not answer.
        """
        if self.live:
            self.session.update(_FIRST, self.session.settings)
            await asyncio.wait({self._settled}, timeout=PATIENCE / 1e9)
            if not self._settled.done():
                raise EngineUnavailable("the engine does not take the session's settings")
            self._settled.result()

    def refuse(self, sender: Subscriber, error: Refusal) -> None:
        """Tells a sender why its event was not taken."""
        self.audience.tell([self._adapter.refusal(error)], [sender])

    def unpack(self, raw: bytes) -> Raw:
        """A long event, read as far as takes time; safe to call in a thread."""
        return self._adapter.unpack(raw)

    @property
    def attended(self) -> bool:
        """Whether its caller has been there at all."""
        return self._presence.began

    def attend(self, client: Subscriber | None, after: str = "") -> Tenure:
        """The caller is there, or back, by a connection: see :class:`Presence`."""
        self._place.keep()
        return self._presence.attend(client, after)

    def carry(self, leg: Leg | None = None) -> None:
        """The connection works: the replies sound, carried by ``leg`` if there is one."""
        if not self._ended.done():
            self._presence.carry(leg)

    async def leave(self, tenure: Tenure, reason: str) -> None:
        """A connection of the caller's is gone. So is the session, unless another connection has
        it already, or the caller was only lost and is waited for.
        """
        if tenure.done():
            return
        lost = reason == "peer_lost" or (reason == "never_connected" and self._presence.worked)
        if lost and self._grace and not self._ended.done():
            self._presence.lose()
            self._place.offer(lambda: self.end("displaced"))
        else:
            await self.end(reason)

    def look(self, now: int) -> None:
        """Lets time pass: what is due is done, and a time that is up ends.

        ``now`` is in nanoseconds of the monotonic clock.
        """
        self.look_at = now + round(self._rest * 1e9)
        self.inbox.look(now)
        if self._ended.done():
            return
        if self.session.ended:
            self._spawn(self.end("closed"), "end")
        elif now - self._began > self._longest * 1e9:
            self._spawn(self.end("session_expired"), "end")
        elif now - max(self._active, self.inbox.received) > self._idle * 1e9:
            self._spawn(self.end("idle_timeout"), "end")
        elif (lost := self._presence.lost_at) is not None and now - lost > self._grace * 1e9:
            self._spawn(self.end("peer_lost"), "end")

    async def ended(self) -> str:
        """Waits for the end and says why."""
        return await asyncio.shield(self._ended)

    async def end(self, reason: str) -> None:
        """Ends the session; safe to call twice."""
        self.session.close(reason)
        if self._ended.done():
            return
        self._ended.set_result(reason)
        self.inbox.close()
        self._place.end()
        self._record.ended(reason)
        self._presence.let_go()
        await asyncio.wait({self._gone}, timeout=GOODBYE)
        self._let_go()
        self.audience.clear()

    def _pump(self, event: contract.Event) -> None:
        """Brings the engine's next event to the session, until the last or one that fails."""
        if self._over:
            return
        now = time.monotonic_ns()
        try:
            self.session.tick(now)
            self.session.on_event(event)
            if self.inbox.waits or not self.inbox.reads_on:
                self.inbox.look(now)
            if self._paced:
                self._presence.wake()
            if not isinstance(event, contract.ReplyAudio):
                self._note(event, now)
        except Exception as error:
            self._let_go()
            self._fail(error)

    def _note(self, event: contract.Event, now: int) -> None:
        """Takes note of an event; sound is too much for that."""
        self._record.event(event)
        if isinstance(event, contract.SpeechStarted | contract.ReplyStarted):
            self._active = now
        elif isinstance(event, contract.Applied) and self._clocked:
            self._rest = CLOCKED
        elif isinstance(event, contract.Closed):
            self._let_go()
            self._spawn(self.end(event.reason), "end")

    def _let_go(self) -> None:
        """The engine has told all that it will be asked for."""
        if not self._over:
            self._over = True
            self._gone.set_result(None)

    def _tell(self, happening: Happening) -> None:
        """Renders a happening once and sends it to everybody; a refusal only to who asked.

        While an update waits for its answer no other event is taken, so the last sender asked.
        """
        if isinstance(happening, _SOUND):
            if events := self._adapter.render(happening):
                self.audience.tell(events)
            return
        self._record.happening(happening)
        match happening:
            case happen.SettingsApplied(ref=ref) if ref == _FIRST:
                self._settled.set_result(None)
                return
            case happen.SettingsRefused(ref=ref, param=param, message=message) if ref == _FIRST:
                self._settled.set_exception(RequestError("invalid_value", message, param))
                return
        refused = isinstance(happening, happen.SettingsRefused)
        self.audience.tell(self._adapter.render(happening), self.inbox.asking if refused else None)

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"{name} {self.id}")
        task.add_done_callback(self._report)
        self._tasks.append(task)

    def _report(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """What fails on our side ends the session, aloud, and no other."""
        self._record.failed(error)
        if not self._ended.done():
            self._spawn(self.end("internal_error"), "end")
