"""One session in OpenAI's GPT-Live protocol: client events in, server events out. Pure.

There are no turns, items or responses here: one stream of sound each way, words with their place on
the session's timeline, and tasks that are handed to the client. What the session does is told as it
reaches the caller; the rest of it stays inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from server import happenings as happen
from server.protocol.event import base64
from server.protocol.live import client_events as client
from server.protocol.live import events
from server.protocol.live.config import DataChannel, Resource, updated
from server.protocol.live.delegation import Delegations, answer_to, is_delegation
from server.protocol.live.timeline import InputTimeline, OutputTimeline
from server.protocol.sound import Coding, InputBuffer, OutputEncoder
from server.protocol.wire import Appends, decode
from server.requests import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msgspec import Struct

    from server.conversation import Item
    from server.happenings import Happening
    from server.protocol.adapter import Place, Refusal
    from server.protocol.wire import Raw
    from server.session import Session

USAGE = 5
"""Seconds between reports of usage."""
_APPENDS = Appends("session.input_audio.append")
_REFLECTED = Coding("pcm", 24_000)
_TO_SIDEBANDS = (events.ReflectedOutput, events.ReflectedInput)
_CLOSE_REASONS: dict[str, events.CloseReason] = {
    "close_requested": "close_requested",
    "hangup": "remote_hangup",
    "session_expired": "expired",
    "too_long": "expired",
    "idle_timeout": "expired",
}
"""How a session's end is told; any other is a connection that was lost."""
_FAREWELLS = {
    "drain": ("server_draining", "The server is going down."),
    "server_stopped": ("server_draining", "The server was stopped."),
    "internal_error": ("internal_error", "The server failed."),
    "idle_timeout": ("idle_timeout", "Nothing was said or asked for too long."),
}
"""The error that explains an end that the client did not bring about."""


class LiveAdapter:
    """Speaks GPT-Live for one session.

    Args:
        session: whose requests are made and whose happenings are rendered.
        shown: the session as its events show it.
        event_id: what the client calls the event that started it.
        leg: its sound goes over a leg, not in these events.
    """

    __slots__ = (
        "_channel", "_close_id", "_delegations", "_encode", "_leg", "_reflected_in",
        "_reflected_out", "_reported", "_said", "_session", "_shown", "_spoken", "_start_id",
        "_watched", "input",
    )  # fmt: skip

    def __init__(
        self, session: Session, shown: Resource, event_id: str | None, *, leg: bool
    ) -> None:
        info = session.info
        coding = _REFLECTED if shown.audio.format is UNSET else shown.audio.format.coding
        self._session = session
        self._shown = shown
        self._start_id = event_id
        self._leg = leg
        self._channel = DataChannel() if shown.client is UNSET else shown.client.data_channel
        self.input = InputBuffer(session, coding, info.input_rate)
        self._encode = OutputEncoder(coding, info.output_rate).push
        self._reflected_in = OutputEncoder(_REFLECTED, info.input_rate)
        self._reflected_out = OutputEncoder(_REFLECTED, info.output_rate)
        self._watched = False
        session.tells_heard = info.can.transcripts  # Or a sideband: nobody else needs to know.
        self._said = InputTimeline(info.input_rate)
        self._spoken = OutputTimeline(info.output_rate)
        self._delegations = Delegations()
        self._reported = 0
        self._close_id: str | None = None

    def opening(self, place: Place) -> list[Struct]:
        """See ``Adapter``: a sideband hears what happens from now on, and the sound with it."""
        if place == "sideband":
            self._watched = self._session.tells_heard = True
            return []
        return [events.SessionStarted(session=self._shown, client_event_id=self._start_id)]

    def hears(self, place: Place, event: Struct) -> bool:
        """See ``Adapter``: a call's data channel carries what its configuration allows."""
        if place == "sideband":
            return not isinstance(event, events.OutputAudioDelta)
        if isinstance(event, _TO_SIDEBANDS):
            return False
        return not self._leg or self._channel.gives(str(event.__struct_config__.tag))

    def refusal(self, error: Refusal) -> Struct:
        """See ``Adapter``."""
        return events.refusal(error)

    def unpack(self, raw: bytes) -> Raw:
        """See ``Adapter``."""
        return _APPENDS.unpack(raw)

    # Client events ------------------------------------------------------------------------------

    def hear(self, raw: Raw, place: Place) -> bool:
        """See ``Adapter``: sound comes from the client alone."""
        if self._leg or place != "client" or (sound := _APPENDS.sound(raw)) is None:
            return False
        return self.input.append(sound)

    def receive(self, raw: Raw, place: Place) -> Sequence[Struct]:
        """See ``Adapter``."""
        event_id: str | None = None
        try:
            fields = decode(raw)
            event_id = client.id_of(fields)
            self._check_allowed(fields.get("type"), place)
            return self._act(client.event_of(fields), event_id)
        except RequestError as error:
            return [events.refusal(error, event_id)]

    def _check_allowed(self, kind: object, place: Place) -> None:
        if place == "sideband" and kind == "session.input_audio.append":
            raise RequestError("permission_denied", "A sideband appends no sound.", "type")
        if place == "client" and self._leg and not self._channel.takes(str(kind)):
            message = "The session's client.data_channel does not allow this event."
            raise RequestError("permission_denied", message, "type")

    def _act(self, event: client.ClientEvent, event_id: str | None) -> list[Struct]:
        match event:
            case client.SessionStart():
                message = "The session has started already."
                raise RequestError("session_already_started", message, "type")
            case client.InputAudioAppend():
                self._hear(event.audio)
            case client.InputAudioMute():
                self._session.muted = True
                return [events.InputAudioMuted(client_event_id=event_id)]
            case client.InputAudioUnmute():
                self._session.muted = False
                return [events.InputAudioUnmuted(client_event_id=event_id)]
            case client.SessionUpdate():
                delegation = updated(self._shown.delegation, event.session)
                self._shown = replace(self._shown, delegation=delegation)
                return [events.SessionUpdated(session=self._shown, client_event_id=event_id)]
            case client.SessionClose():
                self._close_id = event_id
                self._session.close("close_requested")
            case _:
                return [self._append(event, event_id)]
        return []

    def _hear(self, audio: bytes) -> None:
        if self._leg:
            message = "The sound of a call comes on its track."
            raise RequestError("invalid_event", message, "type")
        if not self.input.append(audio):
            raise RequestError(
                "invalid_audio",
                f"Invalid 'audio': expected whole 16-bit samples, got {len(audio)} bytes.",
                "audio",
            )

    def _append(self, event: client.Append, event_id: str | None) -> Struct:
        """Adds to what the model knows, or has it spoken; told with its place on the timeline."""
        if event.delegation_id is not None and event.delegation_id not in self._delegations:
            message = "Invalid 'delegation_id': expected null or the id of one of the newest tasks."
            raise RequestError("invalid_value", message, "delegation_id")
        kind: type[events.Appended] = events.InstructionsAppended
        match event:
            case client.InstructionsAppend():
                self._session.items.note(event.content)
            case client.ThinkingAppend():
                kind = events.ThinkingAppended
                self._session.items.note(f"(For you to know, not to say: {event.content})")
            case client.CommentaryAppend():
                kind = events.CommentaryAppended
                self._session.say(event.content)
        here = self._spoken.ms
        return kind(start_ms=here, end_ms=here, client_event_id=event_id)

    # Happenings ---------------------------------------------------------------------------------

    def render(self, happening: Happening) -> Sequence[Struct]:
        """See ``Adapter``."""
        match happening:
            case happen.Sounded():
                return self._sounded(happening)
            case happen.Heard():
                self._said.hear(len(happening.pcm), self._spoken.ms)
                if self._watched:
                    audio = base64(self._reflected_in.push(happening.pcm))
                    return [events.ReflectedInput(audio=audio)]
            case happen.ReplyText():
                self._spoken.say(happening.reply, happening.text, happening.start, happening.end)
            case happen.PlayoutStopped():
                return [events.spoken(words) for words in self._spoken.rest(happening.reply)]
            case happen.PlayoutCleared():
                self._spoken.forget(happening.reply)
            case happen.SpeechStarted():
                self._said.begin(happening.item, happening.at_ms)
            case happen.SpeechStopped():
                self._said.stop(happening.item, happening.at_ms)
            case happen.TranscriptDelta():
                return [events.said(self._said.words(happening.item, happening.text))]
            case happen.ReplyItemEnded(item=item) if is_delegation(item):
                return [self._delegated(item)]
            case happen.ReplyEnded(status="failed", error_code=code, error_message=message):
                return [events.failure(code or "reply_failed", message or "the reply failed")]
            case happen.Faulted():
                return [events.failure(happening.code, happening.message)]
            case happen.Ended():
                return self._closed(happening.reason)
        return []

    def _sounded(self, sounded: happen.Sounded) -> list[Struct]:
        """The next sound of the stream, the words that it speaks, and what it comes to."""
        rendered: list[Struct] = []
        if sounded.lost:
            self._spoken.skip(sounded.lost)
        start = self._spoken.ms if self._watched else 0
        begun = self._spoken.advance(len(sounded.pcm), sounded.reply, sounded.end)
        end = self._spoken.ms
        if not self._leg:
            delta = base64(self._encode(sounded.pcm))
            rendered.append(events.OutputAudioDelta(delta=delta))
        if self._watched:
            audio = base64(self._reflected_out.push(sounded.pcm))
            rendered.append(events.ReflectedOutput(delta=audio, start_ms=start, end_ms=end))
        if begun:
            rendered.extend(map(events.spoken, begun))
        if (seconds := end // 1000) >= self._reported + USAGE:
            self._reported = seconds
            rendered.append(events.SessionUsageUpdated(usage=events.Usage(seconds)))
        return rendered

    def _delegated(self, call: Item) -> Struct:
        self._session.items.create(answer_to(call))
        delegation = events.Delegation(self._delegations.begin())
        return events.DelegationCreated(offset_ms=self._spoken.ms, delegation=delegation)

    def _closed(self, reason: str) -> list[Struct]:
        rendered: list[Struct] = []
        if reason in _FAREWELLS:
            rendered.append(events.failure(*_FAREWELLS[reason]))
        rendered.append(
            events.SessionClosed(
                reason=_CLOSE_REASONS.get(reason, "connection_lost"),
                session=self._shown,
                usage=events.Usage(self._spoken.ms // 1000),
                client_event_id=self._close_id,
            )
        )
        return rendered
