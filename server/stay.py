"""The shell around one session: it pumps, ticks, and connects it to the caller.

:class:`server.session.Session` decides; this moves what it decided. The protocol's adapter makes
each event once, and every subscriber (a data channel, a socket) is sent the same text. A call's
sound comes and goes by its :class:`~server.transport.leg.Leg`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Protocol

import structlog

from engine import contract
from engine.audio.resample import Resampler
from engine.contract import EngineInfo, EngineSession
from server import happenings as happen
from server.allowance import Allowance
from server.caller import Caller
from server.happenings import Happening
from server.observe import Metrics, Transport
from server.pacer import Line, Pacer
from server.playout import HandedOver, Paced
from server.protocol.realtime import events
from server.protocol.realtime.adapter import RealtimeAdapter
from server.protocol.realtime.events import encode
from server.protocol.realtime.opening import Opening
from server.protocol.realtime.wire import Raw
from server.replies import new_id
from server.session import Session
from server.settings import ServerSettings
from server.transport.leg import Leg

TICK = 0.05
"""Seconds between looks at the clock."""
FRAME = 0.02
"""Seconds per frame that a call's leg is sent."""
INBOX = 256
"""Client events that may wait for settings, or a commit, to be answered."""
PATIENCE = 3_000_000_000
"""Nanoseconds they wait. An engine that does not answer makes no reply either, which is told."""
SUBSCRIBERS = 8
"""Who may be sent one session's events: its client, and sidebands."""
GOODBYE = 2.0
"""Seconds the engine has to let go of an ended session."""

_TOO_MANY = events.Error(
    error=events.ErrorBody(
        type="invalid_request_error",
        code="too_many_events",
        message=f"Expected at most {INBOX} events before settings are answered; one was dropped.",
    )
)

log = structlog.get_logger("server.stay")


class Subscriber(Protocol):
    """Whoever is sent a session's events."""

    def send(self, text: str) -> None:
        """Takes an event's JSON. Never blocks; one who cannot keep up closes itself."""


class Stay:
    """One caller's stay, from admission to the last event.

    Args:
        session_id: ``sess_...``.
        engine: the caller's place.
        info: the engine's facts.
        settings: the operator's.
        opening: how the session begins.
        longest: seconds it lasts at most.
        paced: whether a leg will carry the sound (else it goes with the events).
        owner: whose session it is; ``allowance`` is what it may use of the owner's.
        pacer: hands out frames.
        metrics: counts.
    """

    def __init__(
        self,
        session_id: str,
        engine: EngineSession,
        info: EngineInfo,
        settings: ServerSettings,
        opening: Opening,
        *,
        longest: float,
        paced: bool,
        owner: Caller,
        allowance: Allowance,
        pacer: Pacer,
        metrics: Metrics,
    ) -> None:
        self.id = session_id
        self.owner = owner
        self.call_id = new_id("rtc")
        self.transport: Transport = "webrtc" if paced else "websocket"
        rate = info.output_rate
        self._paced = Paced(rate, round(FRAME * rate)) if paced else None
        self._engine = engine
        self._idle = settings.limits.idle
        self._longest = longest
        self._allowance = allowance
        self._pacer = pacer
        self._metrics = metrics
        self._subscribers: list[Subscriber] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._line: Line | None = None
        self._inbox: deque[tuple[Raw, Subscriber]] = deque()
        self._asking: tuple[Subscriber, ...] = ()
        self._roomy = asyncio.Event()
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._began = self._active = self._answered = time.monotonic_ns()
        self.session = Session(
            self.id,
            engine,
            info,
            self._paced or HandedOver(rate),
            self._tell,
            opening.settings,
            greeting=settings.greeting,
            now=self._began,
        )
        self._adapter = RealtimeAdapter(
            self.session, opening.shown, names=settings.names, paced=paced
        )
        self._log = log.bind(session=self.id)

    def start(self, done: Callable[[Stay], None]) -> None:
        """Runs the session; ``done`` is told of its end."""
        self._metrics.session_started(self.transport)
        self._log.info("session started", transport=self.transport, call=self.call_id)
        self._ended.add_done_callback(lambda _: done(self))
        self._spawn(self._pump(), "pump")
        self._spawn(self._tick(), "tick")

    @property
    def crowded(self) -> bool:
        """Whether so many are sent its events that nobody else may join."""
        return len(self._subscribers) >= SUBSCRIBERS

    def subscribe(self, subscriber: Subscriber) -> None:
        """Sends it everything from now on, the opening first."""
        for event in self._adapter.opening():
            subscriber.send(encode(event))
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Sends it nothing more."""
        with contextlib.suppress(ValueError):
            self._subscribers.remove(subscriber)

    def receive(self, raw: Raw, sender: Subscriber) -> None:
        """Takes a client's event; only its sender is told what was wrong with it."""
        self._active = time.monotonic_ns()
        if len(self._inbox) == INBOX:
            self._metrics.fault("client_event_dropped")
            sender.send(encode(_TOO_MANY))
            return
        self._inbox.append((raw, sender))
        self._take_inbox()

    @property
    def reads_on(self) -> bool:
        """Whether there is nothing to wait for (:meth:`wait_for_room`)."""
        return self._caught_up() and not self._debt()

    async def wait_for_room(self) -> None:
        """Returns when all the sound that events brought was heard, or the session has ended.

        Reading no further event until then slows a client down to what the engine takes, and to
        the sound that its caller may send.
        """
        while not self._caught_up():
            if self.session.room > TICK * self.session.info.input_rate and not self._inbox:
                await asyncio.sleep(0)  # It takes more at once; others have their turn.
                continue
            self._roomy.clear()
            await self._roomy.wait()
            if self.session.ended:
                return
        if debt := self._debt():
            await asyncio.wait({self._ended}, timeout=debt)

    def carry(self, leg: Leg) -> None:
        """Connects a call's sound, both ways."""
        assert self._paced is not None
        resampler = Resampler(self.session.info.output_rate, leg.output_rate)
        self._line = Line(self._paced, leg, resampler, self.session.on_taken, self._fail)
        self._pacer.add(self._line)
        self._spawn(self._hear(leg), "hear")

    async def ended(self) -> str:
        """Waits for the end and says why."""
        return await asyncio.shield(self._ended)

    async def end(self, reason: str) -> None:
        """Ends the session; safe to call twice."""
        self.session.close(reason)
        if self._ended.done():
            return
        self._ended.set_result(reason)
        self._roomy.set()
        self._allowance.end()
        self._metrics.session_ended(self.transport, reason)
        self._log.info("session ended", reason=reason, seconds=self._age())
        if self._line is not None:
            self._pacer.remove(self._line)
        here = asyncio.current_task()
        pump, *others = self._tasks
        for task in others:
            if task is not here:
                task.cancel()
        if pump is not here:
            await asyncio.wait([pump], timeout=GOODBYE)
            pump.cancel()
        self._subscribers.clear()

    async def _pump(self) -> None:
        """Brings the engine's events to the session until the last one."""
        reason = "engine_lost"
        async for event in self._engine.events():
            now = time.monotonic_ns()
            self._count(event)
            self.session.tick(now)
            self.session.on_event(event)
            if self._inbox:
                self._take_inbox()
            self._pacer.wake()
            if isinstance(event, contract.SpeechStarted | contract.ReplyStarted):
                self._active = now
            if isinstance(event, contract.Closed):
                reason = event.reason
                self._metrics.dropped(event.dropped)
        await self.end(reason)

    async def _tick(self) -> None:
        """Shows the session the clock, and ends it when its time is up."""
        while not self._ended.done():
            await asyncio.sleep(TICK)
            now = time.monotonic_ns()
            self._take_inbox()
            self._debt()
            if now - self._began > self._longest * 1e9:
                await self.end("session_expired")
            elif now - self._active > self._idle * 1e9:
                await self.end("idle_timeout")

    async def _hear(self, leg: Leg) -> None:
        """Brings the caller's sound to the engine, at its rate."""
        resampler = Resampler(leg.input_rate, self.session.info.input_rate)
        async for frame in leg.frames():
            self.session.hear(resampler.push(frame.pcm))

    def _take_inbox(self) -> None:
        """Takes clients' events in order, each after what it depends on was answered."""
        now = time.monotonic_ns()
        self.session.tick(now)
        if not self.session.waiting:
            self._answered = now
        while self._inbox and self._adapter.pump():
            if self.session.waiting and now - self._answered < PATIENCE:
                break
            raw, sender = self._inbox.popleft()
            self._asking = (sender,)
            if self.session.ended:
                return
            try:
                answers = self._adapter.receive(raw)
            except Exception as error:
                self._fail(error)
                return
            for event in answers:
                sender.send(encode(event))
        if self._caught_up():
            self._roomy.set()
        self._pacer.wake()

    def _debt(self) -> float:
        """Seconds until the caller has paid for the sound heard; that of a call cannot wait."""
        debt = self._allowance.heard(self.session.heard, time.monotonic_ns())
        return debt if self._paced is None else 0.0

    def _caught_up(self) -> bool:
        return not self._inbox and self._adapter.pump()

    def _tell(self, happening: Happening) -> None:
        """Renders a happening once and sends it to everybody; a refusal only to who asked.

        While an update waits for its answer no other event is taken, so the last sender asked.
        """
        if not isinstance(happening, happen.ReplyAudio):
            self._log.debug("happening", kind=type(happening).__name__)
        match happening:
            case happen.ReplyEnded(reason="turn_detected"):
                self._metrics.interrupted()
            case happen.ReplyEnded(status="failed", error_code=code, error_message=message):
                self._log.warning("reply failed", code=code, message=message)
            case happen.TranscriptFailed(message=message):
                self._log.warning("turn not understood", message=message)
            case happen.Faulted(code=code, message=message, fatal=fatal):
                self._metrics.fault(code)
                self._log.error("fault", code=code, message=message, fatal=fatal)
        refused = isinstance(happening, happen.SettingsRefused)
        hearers = self._asking if refused else tuple(self._subscribers)
        for event in self._adapter.render(happening):
            text = encode(event)
            for subscriber in hearers:
                subscriber.send(text)

    def _count(self, event: contract.Event) -> None:
        if isinstance(event, contract.TurnEnded):
            self._metrics.turn_ended()
        elif isinstance(event, contract.ReplyEnded):
            self._metrics.reply_ended(event.reason, event.timings)

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"{name} {self.id}")
        task.add_done_callback(self._report)
        self._tasks.append(task)

    def _report(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """What fails on our side ends the session, aloud, and no other."""
        self._log.error("session failed", exc_info=error)
        self._metrics.fault("internal_error")
        if not self._ended.done():
            self._spawn(self.end("internal_error"), "end")

    def _age(self) -> float:
        return round((time.monotonic_ns() - self._began) / 1e9, 3)
