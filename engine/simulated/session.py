"""One caller's stay in a simulated engine.

What is offered is acted on at once, on the event loop, unless the engine has stalled. Only replies
run as tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from engine.audio.pcm import floats
from engine.contract import (
    Applied,
    Cancel,
    Clear,
    Close,
    Closed,
    CloseReason,
    Commit,
    Context,
    Event,
    Fault,
    Order,
    Played,
    Refused,
    ReplyAudio,
    Respond,
    SessionEnded,
    Settings,
    Sound,
    TurnEnded,
)
from engine.intake import Entry, Gap, Intake
from engine.outbox import Outbox
from engine.simulated.echo import Echo
from engine.simulated.faults import Crash, crash, keep_busy, struck
from engine.simulated.hearing import Hearing
from engine.simulated.options import Options
from engine.simulated.planner import Draft, Planner, drafted, unknown_voice
from engine.simulated.recording import Heard
from engine.simulated.reply import Plan, Reply

_REPLIES = 8
"""Replies at once."""


@dataclass(slots=True)
class Shared:
    """What all sessions of an engine have in common."""

    options: Options
    stalled: bool = False
    replies: int = 0
    heard: int = 0
    dropped: int = 0


class SimulatedSession:
    """An ``EngineSession``; ``left`` is called once, when it has ended."""

    def __init__(self, shared: Shared, left: Callable[[SimulatedSession], None]) -> None:
        options = shared.options
        self._shared, self._options, self._left = shared, options, left
        self._intake = Intake(int(options.room * options.input_rate))
        self._heard = 0
        self._outbox = Outbox()
        self._settings: Settings | None = None
        self._context = Context(revision=0)
        self._hearing = Hearing(options)
        self._planner = Planner(options)
        self._replies: dict[str, Reply] = {}
        self._draft: Draft | None = None
        self._echo = None if options.detects else Echo(options)
        self._faults = list(options.faults)
        self._slow = 0.0
        self._poisoned = False
        self._loop = asyncio.get_running_loop()
        self._too_long: asyncio.TimerHandle | None = None
        if options.longest_session is not None:
            self._too_long = self._loop.call_later(options.longest_session, self.end, "too_long")

    @property
    def room(self) -> int:
        """See ``EngineSession``."""
        return self._intake.room

    def hear(self, pcm: Sound) -> int:
        """See ``EngineSession``."""
        self._check()
        self._intake.put(floats(pcm))
        self._take()
        return self._intake.room

    def order(self, order: Order) -> None:
        """See ``EngineSession``."""
        self._check()
        self._intake.put(order)
        self._take()

    def listen(self, told: Callable[[Event], None]) -> None:
        """See ``EngineSession``."""
        self._outbox.listen(told)

    def end(self, reason: CloseReason, fault: Fault | None = None) -> None:
        """Ends the session, its replies first; does nothing when it has ended."""
        if self._outbox.closed is not None:
            return
        if self._too_long is not None:
            self._too_long.cancel()
        for reply in self._replies.values():
            reply.stop()
        dropped = self._intake.dropped + self._intake.held
        message = fault.message if fault is not None else ""
        closed = Closed(reason=reason, heard=self._intake.offered, dropped=dropped, message=message)
        self._outbox.end(closed, fault)
        self._shared.heard += self._intake.offered
        self._shared.dropped += dropped
        self._left(self)

    def _check(self) -> None:
        if self._outbox.closed is not None:
            raise SessionEnded(self._outbox.closed)

    def _put(self, event: Event) -> None:
        if self._shared.stalled or self._outbox.closed is not None:
            return
        if self._poisoned and isinstance(event, ReplyAudio):
            self._poisoned = False
            event = ReplyAudio(reply=event.reply, pcm=np.full_like(event.pcm, np.nan))
        if not self._outbox.put(event):
            fault = Fault(code="events_unread", message="nobody reads the session's events")
            self.end("engine_failed", fault)

    def _put_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._put(event)

    # Acting on what was offered

    def _take(self) -> None:
        if self._shared.stalled:
            return
        try:
            for thing in self._placed(self._intake.take(self._intake.held)):
                if isinstance(thing, Heard):
                    self._hear(thing)
                else:
                    self._obey(thing)
                if self._shared.stalled or self._outbox.closed is not None:
                    return
        except Crash:
            fault = Fault(code="engine_failed", message="the simulated engine was told to crash")
            self.end("engine_failed", fault)

    def _placed(self, entries: Iterable[Entry]) -> Iterator[Heard | Order]:
        """What was taken, the sound at its position."""
        for entry in entries:
            if isinstance(entry, Gap):
                self._heard += entry.samples
            elif isinstance(entry, np.ndarray):
                yield Heard(self._heard, entry)
                self._heard += len(entry)
            else:
                yield entry

    def _hear(self, heard: Heard) -> None:
        if self._echo is not None:
            self._put_all(self._echo.push(heard.pcm))
        else:
            self._turns(self._hearing.push(heard))
        self._strike((heard.at + len(heard.pcm)) / self._options.input_rate)

    def _turns(self, events: Iterable[Event]) -> None:
        """Passes on what was heard; an engine that replies by itself answers each turn."""
        for event in events:
            self._put(event)
            if isinstance(event, TurnEnded) and self._options.replies == "by_itself":
                reply = f"reply_{self._hearing.ended}"
                self._respond(
                    Respond(reply=reply, turn=event.turn, revision=self._context.revision)
                )

    def _obey(self, order: Order) -> None:
        match order:
            case Settings():
                self._apply(order)
            case Context():
                self._context = order
                self._draft = drafted(order, self._loop.time())
            case Respond():
                self._asked(order)
            case Cancel():
                self._cancel(order)
            case Played():
                self._played(order)
            case Commit():
                self._turns(self._hearing.commit(order.turn))
            case Clear():
                self._turns(self._hearing.clear())
            case Close():
                self.end("closed")
            case _:
                pass

    def _apply(self, order: Settings) -> None:
        before = self._settings
        voice = order.voice or (before.voice if before else self._options.voices[0])
        new = msgspec.structs.replace(order, voice=voice)
        if voice not in self._options.voices:
            message = unknown_voice(self._options, voice)
            self._put(Refused(id=order.id, param="voice", message=message))
            return
        if before is not None and self._options.replies == "by_itself":
            for param in ("voice", "instructions"):
                if getattr(before, param) != getattr(new, param):
                    message = f"{param}: cannot change once the engine has begun"
                    self._put(Refused(id=order.id, param=param, message=message))
                    return
        self._settings = new
        self._put(Applied(id=order.id, effective=new))
        if self._echo is None:
            self._turns(self._hearing.apply(new))

    # Replies

    def _asked(self, order: Respond) -> None:
        if self._options.replies == "by_itself":
            self._say(order, Plan(reason="failed", message="the engine replies by itself"))
        else:
            self._respond(order)

    def _respond(self, order: Respond) -> None:
        for reply in [name for name, reply in self._replies.items() if reply.ended]:
            del self._replies[reply]
        if len(self._replies) >= _REPLIES:
            message = f"replies at once: expected at most {_REPLIES}"
            self._say(order, Plan(reason="failed", message=message))
            return
        settled = self._settings.voice if self._settings else self._options.voices[0]
        voice = order.voice or self._context.voice or settled
        wait = self._slow
        draft = self._draft
        if draft is not None and draft.fits(order):
            wait = max(0.0, wait - (self._loop.time() - draft.since))
        plan = self._planner.plan(order, self._context, self._hearing.turns, voice, wait)
        self._say(order, plan)

    def _say(self, order: Respond, plan: Plan) -> None:
        rate = self._options.output_rate
        self._shared.replies += 1
        self._replies[order.reply] = Reply(
            order, plan, put=self._put, ahead=int(self._options.ahead * rate), piece=rate // 10
        )

    def _cancel(self, order: Cancel) -> None:
        if self._echo is not None:
            self._put_all(self._echo.cancel(order.reply))
        elif order.reply in self._replies:
            self._replies[order.reply].cancel()

    def _played(self, order: Played) -> None:
        if self._echo is not None:
            self._echo.played(order.reply, order.samples)
        elif order.reply in self._replies:
            self._replies[order.reply].played(order.samples)

    # Faults to order

    def _strike(self, seconds: float) -> None:
        """Lets the faults happen that are due after ``seconds`` of sound or the turns so far."""
        for fault in struck(self._faults, seconds, self._hearing.ended):
            match fault.kind:
                case "slow":
                    self._slow = fault.seconds
                case "stall":
                    self._shared.stalled = True
                case "busy":
                    keep_busy(fault.seconds)
                case "nan":
                    self._poisoned = True
                case "crash":
                    crash()
