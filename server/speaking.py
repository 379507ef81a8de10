"""The service's side of a session: replies are made, sound, and are cut to what was heard. Pure.

A reply has two ends: nothing more is made of it, and nothing more of it is heard. The first is
:class:`server.replies.Replies`' subject, the second the playout's; here they are kept in step with
the engine, which is told what was played and what is not wanted any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from engine import contract
from engine.contract import EngineInfo, Sound
from server import happenings as happen
from server.conversation import Conversation, Item
from server.happenings import Activity, Happening, Reason
from server.playout import Playout, Taken, forget_oldest
from server.replies import Outcome, Replies, Reply, new_id
from server.requests import ReplyRequest, SessionSettings

REPLY_TIMEOUT = 20_000_000_000
"""Nanoseconds without anything coming of a reply, nor of it being played, that make it fail."""


class Speaking:
    """The replies of a session, from the asking to the last sample heard.

    Args:
        conversation: where replies are written.
        playout: where they sound.
        tell: hears every happening, in order.
        order: gives the engine an order.
        info: the engine's facts.
        live: what sounds is told when it leaves, not as it is made.
    """

    __slots__ = (
        "_calls_tools", "_conversation", "_last_heard", "_order", "_playout", "_rate", "_replies",
        "_sounding", "_tell",
    )  # fmt: skip

    def __init__(
        self,
        conversation: Conversation,
        playout: Playout,
        tell: Callable[[Happening], None],
        order: Callable[[contract.Order], None],
        info: EngineInfo,
        *,
        live: bool,
    ) -> None:
        self._conversation = conversation
        self._playout = playout
        self._tell = tell
        self._order = order
        self._rate = info.output_rate
        self._calls_tools = info.can.tools
        self._replies = Replies(conversation, tell, info.output_rate, live=live)
        self._sounding: dict[str, str] = {}
        self._last_heard = ""

    def active(self) -> Reply | None:
        """The reply that is being made and writes to the conversation."""
        return self._replies.active()

    def find(self, reply: str | None) -> Reply | None:
        """The reply of that id while it is being made; None asks for the active one."""
        return self._replies.get(reply) if reply else self._replies.active()

    def playing(self, now: int) -> bool:
        """Whether the caller hears a reply."""
        return self._playout.playing(now) is not None

    def activity(self, now: int, *, judging: bool) -> Activity:
        """What a person should see the service doing; ``judging``: whether a turn has ended."""
        if self.playing(now):
            return "speaking"
        return "thinking" if self.active() or judging else "listening"

    def ask(
        self,
        request: ReplyRequest,
        settings: SessionSettings,
        revision: int,
        turn: str | None,
        turn_ms: int,
        now: int,
    ) -> None:
        """Has the engine make a reply over context ``revision``, to ``turn`` if it answers one."""
        reply = Reply(
            id=new_id("resp"),
            modality=request.modality or settings.modality,
            voice=request.voice or settings.voice,
            max_tokens=request.max_tokens or settings.max_tokens,
            out_of_band=request.out_of_band,
            metadata=request.metadata,
            parallel_calls=(
                settings.parallel_calls
                if request.parallel_calls is None
                else request.parallel_calls
            ),
            turn_ms=turn_ms,
            touched=now,
        )
        self._replies.begin(reply)
        self._order(
            contract.Respond(
                reply=reply.id,
                revision=revision,
                turn=turn,
                modality=reply.modality,
                messages=None if request.input is None else _messages(request.input),
                instructions=request.instructions,
                tools=request.tools if self._calls_tools else None,
                tool_choice=request.tool_choice or settings.tool_choice,
                voice=request.voice,
                max_tokens=reply.max_tokens,
                verbatim=request.verbatim,
            )
        )

    def begin(self, reply: str, settings: SessionSettings, now: int) -> None:
        """An engine that replies by itself began to."""
        self._replies.begin(
            Reply(
                reply,
                "audio",
                settings.voice,
                parallel_calls=settings.parallel_calls,
                touched=now,
            )
        )

    def sound(self, reply_id: str, pcm: Sound, now: int) -> None:
        """The engine made more of how a reply sounds; of one that has ended, nothing is wanted."""
        reply = self._replies.get(reply_id)
        if reply is None:
            return
        reply.touched = now
        self._replies.sound(reply, pcm)
        self._playout.push(reply_id, pcm, now)

    def more(self, event: contract.ReplyText | contract.ToolCall, now: int) -> None:
        """The engine made more of a reply; of one that has ended, nothing is wanted."""
        reply = self._replies.get(event.reply)
        if reply is None:
            return
        reply.touched = now
        if isinstance(event, contract.ReplyText):
            self._replies.say(reply, event.text, event.start, event.end)
        else:
            self._replies.call(reply, event)

    def made(self, event: contract.ReplyEnded) -> None:
        """The engine has made all of a reply that it will."""
        reply = self._replies.get(event.reply)
        if reply is None:
            return
        self._playout.finish(reply.id)
        if event.reason == "completed":
            outcome = Outcome("completed", usage=event.usage)
        elif event.reason == "length":
            outcome = Outcome("incomplete", "max_output_tokens", usage=event.usage)
        elif event.reason == "cancelled":
            outcome = Outcome("cancelled", "client_cancelled", usage=event.usage)
        else:
            outcome = Outcome("failed", None, "reply_failed", event.message, event.usage)
        self._end(reply, outcome)

    def stop(self, reply: Reply, outcome: Outcome) -> None:
        """Ends a reply from our side; what was made of it may still be heard."""
        self._order(contract.Cancel(reply=reply.id))
        self._playout.finish(reply.id)
        self._end(reply, outcome)

    def stop_all(self, outcome: Outcome) -> None:
        """Ends every reply that is being made."""
        for reply in self._replies.all():
            self.stop(reply, outcome)

    def hold(self) -> None:
        """Stops sounding until it is clear whether the caller speaks."""
        self._playout.hold()

    def release(self) -> None:
        """Goes on where it was held."""
        self._playout.release()

    def interrupt(self, now: int) -> str | None:
        """The caller took the floor. Returns the words not heard; None if there was no reply."""
        active = self._replies.active()
        sounding = active is not None or self.playing(now)
        cuts = {}
        if active is not None:
            if active.item is not None and active.modality == "audio":
                active.sounding = active.item
                cuts = {active.id: self._playout.played(active.id, now)}
            self.stop(active, Outcome("cancelled", "turn_detected"))
        cuts |= self._playout.cut(now)
        self._stop_cut(cuts, "turn_detected")
        unheard = self._cut(cuts)
        return unheard if sounding else None

    def cut(self, now: int) -> None:
        """Throws away sound not yet heard, and what was to follow it; items keep what was heard.

        It is told even where there was nothing to throw away: whoever asked waits for it.
        """
        cuts = self._playout.cut(now)
        self._stop_cut(cuts, "client_cancelled")
        self._cut(cuts)
        if not cuts:
            self._tell(happen.PlayoutCleared(reply=self._last_heard))

    def taken(self, taken: Taken, now: int) -> None:
        """A frame was handed out; replies began or ended with it."""
        if taken.started:
            self._last_heard = taken.started
            self._tell(happen.PlayoutStarted(reply=taken.started))
        for reply in taken.stopped:
            self._report(reply, now)
            self._sounding.pop(reply, None)
            self._tell(happen.PlayoutStopped(reply=reply))

    def report(self, now: int) -> None:
        """Tells the engine how much of the reply that is heard has been played."""
        playing = self._playout.playing(now)
        if playing is not None:
            self._report(playing, now)

    def expire(self, now: int) -> None:
        """Fails replies of which nothing comes any more."""
        for reply in self._replies.all():
            if now - reply.touched > REPLY_TIMEOUT:
                self.stop(
                    reply, Outcome("failed", None, "reply_timeout", "the model stopped answering")
                )

    def _end(self, reply: Reply, outcome: Outcome) -> None:
        """Ends a reply that may be heard for a while: its message can be cut until then."""
        if reply.sounding is not None:
            self._sounding[reply.id] = reply.sounding.id
            forget_oldest(self._sounding)
        self._replies.end(reply, outcome)

    def _stop_cut(self, cuts: Iterable[str], reason: Reason) -> None:
        """Ends those of ``cuts`` that are still being made: the rest would sound all the same."""
        for reply in filter(None, map(self._replies.get, cuts)):
            self.stop(reply, Outcome("cancelled", reason))

    def _cut(self, cuts: dict[str, int]) -> str:
        """Cuts replies to the samples heard of them. Returns the words not heard."""
        unheard: list[str] = []
        for reply, heard in cuts.items():
            item = self._sounding.pop(reply, None)
            if self._playout.paced:
                self._tell(happen.PlayoutCleared(reply=reply))
            if item is None or item not in self._conversation:
                continue
            unheard.append(self._conversation.unheard(item, heard))
            self._conversation.cut(item, heard)
            if self._playout.paced:
                end_ms = heard * 1000 // self._rate
                self._tell(happen.ItemTruncated(item=item, audio_end_ms=end_ms))
        return " ".join(filter(None, unheard))

    def _report(self, reply: str, now: int) -> None:
        self._order(contract.Played(reply=reply, samples=self._playout.played(reply, now)))
        if (open_reply := self._replies.get(reply)) is not None:
            open_reply.touched = now


def _messages(input_items: tuple[Item, ...]) -> tuple[contract.Message, ...]:
    """The context that items given with a request make by themselves, one given twice included."""
    conversation = Conversation()
    for number, item in enumerate(input_items):
        conversation.add(replace(item, id=f"input_{number}"))
    return conversation.messages()
