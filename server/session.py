"""A session: one caller's stay, whatever the protocol and the way in. Pure.

It owns the conversation, decides who may interrupt whom, and keeps engine, playout and protocol in
step. It neither waits nor looks at a clock: requests come from a protocol adapter, events from the
engine, frames from the pacer, and the time with :meth:`Session.tick`. What comes of them is orders
to the engine, sound to the playout and happenings to the adapter, at once and in order.

Interruption: an onset holds the playout; confirmed speech cuts the reply in every stage, down to
what was heard; a false alarm goes on where it was held. A turn that cut a reply and then proves
empty (noise) gets the unheard rest spoken, so that nobody is left in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from engine import contract
from engine.contract import EngineInfo, EngineSession, Samples, Sound
from server import happenings as happen
from server import requests
from server.context import Shared
from server.conversation import Conversation
from server.happenings import Activity, Happening
from server.heard import KEPT
from server.idle import IdleWatch
from server.items import Items
from server.listening import Listening
from server.owed import Owed
from server.playout import Playout, Taken
from server.replies import Outcome
from server.requests import ReplyRequest, RequestError, SessionSettings
from server.speaking import Speaking
from server.unpaced import Streamed
from server.updates import Updates

LOOK, REPORT = 20_000_000, 100_000_000
"""Nanoseconds between looks at what may be due, and between reports to the engine of what was
played, by which it knows its own echo. Where it yields by itself, by a clock, both are longer."""


class Session:
    """One caller's stay.

    Args:
        session_id: ``sess_...``.
        engine: the caller's place in the engine; the session gives all its orders.
        info: the engine's facts.
        playout: where replies sound, at the engine's output rate.
        tell: hears every happening, in order.
        settings: what holds until the client says otherwise.
        greeting: spoken at the start, if not empty.
        live: its sound is one stream each way, told as it goes.
        now: nanoseconds, of the clock that ``tick`` goes on with.
    """

    __slots__ = (
        "_activity", "_began", "_context", "_cuts", "_engine", "_faulted", "_greeting", "_idle",
        "_idle_turn", "_judging", "_listening", "_live", "_look", "_look_at", "_now", "_owed",
        "_report", "_reported", "_speaking", "_stream", "_tell", "_updates", "conversation",
        "ended", "heard", "id", "info", "items", "muted", "settings", "tells_heard",
    )  # fmt: skip

    def __init__(
        self,
        session_id: str,
        engine: EngineSession,
        info: EngineInfo,
        playout: Playout,
        tell: Callable[[Happening], None],
        settings: SessionSettings,
        *,
        greeting: str = "",
        live: bool = False,
        now: int = 0,
    ) -> None:
        self.id, self.info, self.settings = session_id, info, settings
        self.conversation = Conversation()
        self.items = Items(self.conversation, tell, self._share_context, info)
        self.muted = False
        """Whether the engine hears silence instead of the caller; who watches hears the caller."""
        self.ended, self.tells_heard = False, live
        """Whether it is over; whether the caller's sound is told as it is heard."""
        self._engine, self._tell = engine, tell
        self._stream = playout if isinstance(playout, Streamed) else None
        self._live, self._greeting = live, greeting
        self._cuts = info.tick is None  # A clocked engine listens as it speaks: it yields itself.
        self._look, self._report = (LOOK, REPORT) if self._cuts else (25 * LOOK, 10 * REPORT)
        rate, kept = info.input_rate, 0 if playout.paced else KEPT
        self._listening = Listening(self.conversation, tell, rate, kept)
        self.heard = self._listening.heard
        self._speaking = Speaking(self.conversation, playout, tell, self._order, info, live=live)
        self._now = self._began = self._reported = self._look_at = now
        self._updates = Updates(self._order, tell)
        self._context = Shared(self._order, info.can.tools)
        self._idle, self._owed, self._judging, self._faulted = IdleWatch(), Owed(), False, ""
        self._idle_turn: str | None = None
        self._activity: Activity = "listening"

    # Requests -----------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """Input samples that can be offered now without loss."""
        return self._engine.room

    def hear(self, pcm: Sound) -> int:
        """Offers the caller's sound at ``info.input_rate``; returns the room that is left."""
        if self.tells_heard and not self.ended:
            self._tell(happen.Heard(pcm=pcm))
        if self.muted:
            pcm = np.zeros_like(pcm)
        self.heard.push(pcm)
        try:
            return self._engine.hear(pcm)
        except contract.SessionEnded:
            return 0

    @property
    def waiting(self) -> bool:
        """Whether settings or a commit wait for an answer; what is asked next may depend on it."""
        return bool(self._updates.asked or self._listening.committed)

    def update(self, ref: str | None, settings: SessionSettings) -> None:
        """Asks for settings; ``SettingsApplied(ref)`` or ``SettingsRefused(ref)`` answers."""
        self._updates.ask(ref, settings)

    def commit(self) -> None:
        """Ends what was heard since the last turn as a turn; it is not answered by itself."""
        requests.must_be_told(self.info)
        turn = self._listening.commit(detecting=self.settings.turns.kind != "none")
        self._order(contract.Commit(turn=turn))

    def clear_input(self) -> None:
        """Forgets what was heard since the last turn."""
        self._order(contract.Clear())
        self._judging = False
        self._listening.clear()
        self._show()

    def sound_of(self, item_id: str) -> Samples | None:
        """How a caller's item sounded, at ``info.input_rate``, while that is kept."""
        return self._listening.sound_of(item_id)

    def respond(self, request: ReplyRequest) -> None:
        """Starts a reply."""
        requests.must_be_told(self.info)
        active = self._speaking.active()
        if active is not None and not request.out_of_band:
            raise RequestError(
                "conversation_already_has_active_response",
                f"Conversation already has an active response in progress: {active.id}. "
                "Wait until the response is finished before creating a new one.",
            )
        self._start(request)

    def say(self, text: str) -> None:
        """Has ``text`` spoken, once no reply is being made and the caller does not speak."""
        requests.must_take_text(self.info)
        self._owed.add(text)
        self._answer(self._owed.turn)

    def cancel(self, reply: str | None) -> None:
        """Stops making a reply; what was made of it may still be heard (see ``clear_output``)."""
        found = self._speaking.find(reply)
        if found is None:
            raise RequestError(
                "response_cancel_not_active", "Cancellation failed: no active response found"
            )
        self._speaking.stop(found, Outcome("cancelled", "client_cancelled"))
        self._share_context()
        self._answer(self._owed.turn)
        self._show()

    def clear_output(self) -> None:
        """Throws away the sound not yet heard and cuts its items to what was."""
        self._speaking.cut(self._now)
        self._share_context()
        self._show()

    def close(self, reason: str) -> None:
        """Ends the session: its replies, and the caller's place in the engine. Once is enough."""
        if self.ended:
            return
        self._speaking.stop_all(Outcome("cancelled", "session_ended"))
        self._order(contract.Close())
        self._end(reason)

    # What happens -------------------------------------------------------------------------------

    def on_event(self, event: contract.Event) -> None:
        """Takes the engine's next event."""
        if self.ended:
            return
        match event:
            case contract.ReplyAudio():
                self._speaking.sound(event.reply, event.pcm, self._now)
                if self._stream is not None:
                    self.on_taken(self._stream.pass_on(event.reply, event.pcm))
                if self._activity == "speaking":
                    return
            case contract.ReplyText() | contract.ToolCall():
                self._speaking.more(event, self._now)
            case contract.Applied() | contract.Refused():
                self._on_answer(event)
            case contract.Onset():
                if self.settings.interrupt_response and self._cuts:
                    self._speaking.hold()
            case contract.OnsetDropped():
                self._speaking.release()
            case contract.SpeechStarted():
                self._on_speech(event)
            case contract.SpeechStopped():
                self._judging = self.settings.create_response
                self._listening.pause(event)
            case contract.TurnEnded():
                self._on_turn(event)
            case contract.TurnDropped():
                self._on_noise(event)
            case contract.TranscriptDelta():
                self._listening.more(event)
            case contract.TranscriptCompleted() | contract.TranscriptFailed():
                self._listening.transcribed(event)
                self._share_context()
            case contract.ReplyStarted():
                if self.info.replies == "by_itself":
                    self._speaking.begin(event.reply, self.settings, self._now)
            case contract.ReplyEnded():
                self._speaking.made(event)
                self.items.trim()
                self._answer(self._owed.turn)
            case contract.Fault():
                self._faulted = event.code
                self._tell(happen.Faulted(code=event.code, message=event.message, fatal=False))
            case contract.Closed():
                self._on_closed(event)
        self._show()

    def on_taken(self, taken: Taken) -> None:
        """Learns that a frame was handed out, and what began or ended with it."""
        if self.ended:
            return
        if self._live:
            self._tell(happen.Sounded(taken.pcm, taken.reply, taken.end, taken.lost))
        if taken.started or taken.stopped:
            self._speaking.taken(taken, self._now)
            self._show()

    def tick(self, now: int) -> None:
        """Lets time pass: some times a second, and before anything that depends on it."""
        self._now = now
        if self.ended or now < self._look_at:
            return
        self._look_at = now + (self._look if self._updates.answered else LOOK)
        if self._updates.overdue(now - self._began):
            self.update(None, self.settings)
        if now - self._reported >= self._report:
            self._reported = now
            self._speaking.report(now)
        self._speaking.expire(now)
        self._watch_idle()
        self._show()

    def _on_answer(self, event: contract.Applied | contract.Refused) -> None:
        greet = self._greeting and self.settings.replies and not self._updates.answered
        self._updates.answer(event, self._apply)
        if greet and self.info.replies == "when_told":
            self._start(ReplyRequest(verbatim=self._greeting))

    def _apply(self, settings: SessionSettings) -> None:
        self.settings = settings
        self._share_context()

    def _on_speech(self, event: contract.SpeechStarted) -> None:
        self._listening.speech(event)
        if self.settings.interrupt_response and self._cuts:
            self._owed.turn = None
            self._owed.cut_short(event.turn, self._speaking.interrupt(self._now))
            self._share_context()
        self._speaking.release()

    def _on_turn(self, event: contract.TurnEnded) -> None:
        self._judging = False
        self._owed.rest(event.turn)
        wanted = self._listening.end(event) and self.settings.create_response
        self.items.trim()
        if (wanted or event.turn == self._idle_turn) and self.info.replies == "when_told":
            self._answer(event.turn)

    def _on_noise(self, event: contract.TurnDropped) -> None:
        self._judging = False
        self._listening.drop(event)
        rest = self._owed.rest(event.turn)
        owed = rest is not None and self.info.replies == "when_told"
        if owed and self._speaking.active() is None:
            self._start(ReplyRequest(verbatim=rest or None))
        self._answer(self._owed.turn)

    def _on_closed(self, event: contract.Closed) -> None:
        message = event.message or "the speech engine ended the session"
        self._speaking.stop_all(Outcome("failed", None, event.reason, message))
        if event.reason not in ("closed", self._faulted):
            self._tell(happen.Faulted(code=event.reason, message=message, fatal=True))
        self._end(event.reason)

    def _answer(self, turn: str | None) -> None:
        """Replies to ``turn``, as soon as no reply is being made and the caller does not speak."""
        free = self._speaking.active() is None and self._listening.turn is None
        self._owed.turn = None if free else turn
        if turn is not None and free:
            self._start(ReplyRequest(), turn)
        elif free and (text := self._owed.text()) is not None:
            self._start(ReplyRequest(verbatim=text))

    def _start(self, request: ReplyRequest, turn: str | None = None) -> None:
        length = self._listening.length_ms(turn)
        self._speaking.ask(request, self.settings, self._context.revision, turn, length, self._now)
        self._show()

    def _share_context(self) -> None:
        self._context.share(self.conversation, self.settings)

    def _watch_idle(self) -> None:
        """After a reply, a caller silent for the set time has said nothing, and is answered."""
        replying = self._speaking.active() or self._speaking.playing(self._now)
        if replying or self._listening.turn is not None:
            self._idle.busy(self._now, self._listening.offered)
        timeout = self.settings.idle_timeout_ms
        if self._listening.fresh and (since := self._idle.poll(self._now, timeout)) is not None:
            self._idle_turn = self._listening.idle(since)
            self._order(contract.Commit(turn=self._idle_turn))

    def _show(self) -> None:
        """Says what a person should see the service doing, when it changes."""
        activity = self._speaking.activity(self._now, judging=self._judging)
        if activity != self._activity and not self.ended:
            self._activity = activity
            self._tell(happen.ActivityChanged(activity=activity))

    def _end(self, reason: str) -> None:
        self.ended = True
        self._tell(happen.Ended(reason=reason))

    def _order(self, order: contract.Order) -> None:
        """Orders to an engine that has ended are void: its last event says why."""
        with suppress(contract.SessionEnded):
            self._engine.order(order)
