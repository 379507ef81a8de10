"""One caller's stay with a model that listens and speaks at once."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from engine.contract import (
    Applied,
    Cancel,
    Close,
    Closed,
    CloseReason,
    Commit,
    Event,
    Fault,
    Order,
    Played,
    Refused,
    ReplyEnded,
    ReplyStarted,
    Respond,
    SessionEnded,
    Settings,
    Sound,
    TurnDropped,
)
from engine.duplex.facts import Facts
from engine.duplex.loop import Loop
from engine.duplex.seat import Frame, Seat
from engine.duplex.segments import Segments
from engine.outbox import Outbox


class DuplexSession:
    """An ``EngineSession``; ``left`` is called once, when it has ended.

    The model begins with the first settings; what is heard before that, and while it reads its
    prompt, is missed.
    """

    __slots__ = ("_facts", "_first", "_left", "_outbox", "_says", "seat", "segments")

    def __init__(self, facts: Facts, loop: Loop, left: Callable[[DuplexSession], None]) -> None:
        self._facts, self._left = facts, left
        self.seat = Seat(
            loop,
            self,
            frame=facts.frame,
            room=facts.room,
            positions=facts.positions,
            frames=facts.frames,
        )
        self._outbox = Outbox()
        self._says = facts.says()
        self._first: Settings | None = None
        rate, spoken = facts.info.output_rate, facts.spoken
        self.segments = Segments(
            frame=spoken,
            audible=facts.audible,
            patience=max(1, -(-facts.silence_ms * rate // (1000 * spoken))),
            ahead=int(facts.info.ahead * rate),
        )

    @property
    def room(self) -> int:
        """See ``EngineSession``."""
        return self.seat.buffer.room

    def hear(self, pcm: Sound) -> int:
        """See ``EngineSession``."""
        if self._outbox.closed is not None:
            raise SessionEnded(self._outbox.closed)
        return self.seat.put(pcm)

    def order(self, order: Order) -> None:
        """See ``EngineSession``. It acts at the tick that takes the sound before it, but for the
        first settings: nothing is heard before them.
        """
        if self._outbox.closed is not None:
            raise SessionEnded(self._outbox.closed)
        if isinstance(order, Settings) and self._first is None:
            if not self._outbox.put(self._apply(order)):
                self._end_unread()
        else:
            self.seat.put(order)

    def listen(self, told: Callable[[Event], None]) -> None:
        """See ``EngineSession``."""
        self._outbox.listen(told)

    def ticked(self, frame: Frame) -> None:
        """See ``Listener``: a frame for each tick, those skipped before it too."""
        if frame.skipped:
            self._tell(*[self.segments.silence()] * frame.skipped)
        for order in frame.orders:
            self._obey(order)
        text = "" if frame.pcm is None else self._says(frame.token)
        for event in self.segments.push(frame.pcm, frame.level, text):
            self._tell(event)

    def end(self, reason: CloseReason, fault: Fault | None = None) -> None:
        """Ends the session, its reply first; does nothing when it has ended."""
        if self._outbox.closed is not None:
            return
        self.seat.leave()
        message = fault.message if fault is not None else ""
        self._outbox.end(Closed(reason, *self.seat.counts(), message), fault)
        self._left(self)

    def _tell(self, *events: Event) -> None:
        for event in events:
            if self._outbox.closed is None and not self._outbox.tell(event):
                self._end_unread()

    def _end_unread(self) -> None:
        message = "nobody reads the session's events"
        self.end("engine_failed", Fault(code="events_unread", message=message))

    def _obey(self, order: Order) -> None:
        match order:
            case Settings():
                self._tell(self._apply(order))
            case Cancel():
                self._tell(*self.segments.cancel(order.reply))
            case Played():
                self.segments.played(order.reply, order.samples)
            case Respond():
                ended = ReplyEnded(order.reply, "failed", "the engine replies by itself")
                self._tell(ReplyStarted(order.reply, order.turn), ended)
            case Commit():
                self._tell(TurnDropped(order.turn))
            case Close():
                self.end("closed")
            case _:
                pass

    def _apply(self, order: Settings) -> Event:
        """Begins with the first settings that fit; later ones may not change voice and role."""
        first, voices = self._first, self._facts.info.voices
        voice = order.voice or (first.voice if first else voices[0])
        if voice not in voices:
            message = f"expected one of {', '.join(voices)}, got {voice}"
            return Refused(order.id, "voice", f"voice: {message}")
        told = msgspec.structs.replace(order, voice=voice)
        for param in ("voice", "instructions") if first else ():
            if getattr(first, param) != getattr(told, param):
                return Refused(order.id, param, f"{param}: cannot change once the engine has begun")
        if first is None:
            try:
                prompt = self._facts.prompt(voice, told.instructions)
            except ValueError as error:
                return Refused(order.id, "instructions", f"instructions: {error}")
            self._first = told
            self.seat.buffer.real_time = told.real_time
            self.seat.begin(self._facts.choices(), prompt)
        if not self._facts.takes_role:
            told = msgspec.structs.replace(told, instructions="")
        return Applied(order.id, told)
