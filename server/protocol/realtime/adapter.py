"""One session in OpenAI's Realtime protocol (GA): client events in, server events out. Pure.

The adapter asks the session and renders what it tells; order, ids and exactly-once are the
session's. :meth:`RealtimeAdapter.receive` answers the sender alone, :meth:`RealtimeAdapter.render`
speaks to every subscriber, so each event is made once however many listen.

The session object that clients see is kept here. An update is merged into the newest one asked for,
so updates in flight add up, and it is shown once the session says that it holds.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from server import happenings as happen
from server.conversation import Item
from server.happenings import Happening
from server.heard import LONGEST
from server.protocol import bounds
from server.protocol.adapter import Place, Refusal
from server.protocol.event import ServerEvent
from server.protocol.names import LocalNames
from server.protocol.realtime import client_events as client
from server.protocol.realtime import effect, events, rendering
from server.protocol.realtime.items import (
    ItemReference,
    Message,
    WireItem,
    from_wire,
    to_wire,
    with_audio,
)
from server.protocol.realtime.response_object import (
    OutputShown,
    ResponseParams,
    request_of,
    response_of,
)
from server.protocol.realtime.responses import OpenResponse
from server.protocol.realtime.session_object import (
    Format,
    RealtimeSession,
    SessionObject,
    merge,
)
from server.protocol.sound import InputBuffer, OutputEncoder
from server.protocol.wire import Appends, Raw, convert, decode
from server.requests import RequestError

if TYPE_CHECKING:
    from msgspec import Struct

    from engine.contract import Tool
    from server.session import Session
    from server.settings import Names

LONGEST_EVENT_ID = 512
_APPENDS = Appends("input_audio_buffer.append")
_CONVERSES = (
    client.ItemCreate,
    client.ItemTruncate,
    client.ResponseCreate,
    client.ResponseCancel,
    client.OutputAudioBufferClear,
)
"""What is asked of a session that converses, and of no other."""

log = structlog.get_logger(__name__)


class RealtimeAdapter:
    """Speaks Realtime for one session.

    Args:
        session: whose requests are made and whose happenings are rendered.
        shown: the session object that says what holds at its beginning.
        names: the operator's tables of stock names.
        paced: the sound goes over a media leg, not in these events (WebRTC, telephones).
    """

    def __init__(
        self, session: Session, shown: SessionObject, *, names: Names, paced: bool
    ) -> None:
        self._session = session
        self._paced = paced
        self._shown = shown
        model = shown.model if isinstance(shown, RealtimeSession) else ""
        self._names = LocalNames(names, session.info, model)
        self._conversation = f"conv_{session.id.removeprefix('sess_')}"
        self._updates: dict[str, tuple[str | None, SessionObject]] = {}
        self._asked = 0
        self.input = InputBuffer(session, shown.audio.input.format.coding, session.info.input_rate)
        self._open: dict[str, OpenResponse] = {}
        self._format: Format | None = None
        self._voice_names: dict[str, str] = {}
        self._spoken = False
        self._tools_noted = False

    def opening(self, place: Place = "client") -> list[ServerEvent]:
        """See ``Adapter``: a sideband hears what the client heard."""
        created: list[ServerEvent] = [events.SessionCreated(session=self._shown)]
        if isinstance(self._shown, RealtimeSession):
            conversation = events.Conversation(id=self._conversation)
            created.append(events.ConversationCreated(conversation=conversation))
        return created

    # Client events ------------------------------------------------------------------------------

    def hear(self, raw: Raw, place: Place) -> bool:
        """See ``Adapter``."""
        if self._paced or (sound := _APPENDS.sound(raw)) is None:
            return False
        return self.input.append(sound)

    def receive(self, raw: Raw, place: Place = "client") -> list[ServerEvent]:
        """See ``Adapter``: a sideband may do what the client may."""
        event_id: str | None = None
        try:
            fields = decode(raw)
            given = fields.get("event_id")
            if isinstance(given, str) and len(given) <= LONGEST_EVENT_ID:
                event_id = given
            return self._act(convert(fields, client.ClientEvent), event_id)
        except RequestError as error:
            return [events.refusal(error, event_id)]

    def hears(self, place: Place, event: Struct) -> bool:
        """See ``Adapter``: everybody hears everything."""
        return True

    def refusal(self, error: Refusal) -> ServerEvent:
        """See ``Adapter``."""
        return events.refusal(error)

    def unpack(self, raw: bytes) -> Raw:
        """See ``Adapter``."""
        return _APPENDS.unpack(raw)

    def _act(self, event: client.ClientEvent, event_id: str | None) -> list[ServerEvent]:
        session = self._session
        if isinstance(event, _CONVERSES) and not isinstance(self._shown, RealtimeSession):
            kind = event.__struct_config__.tag
            raise RequestError(
                "invalid_value",
                f"Invalid 'type': a transcription session takes no {kind}; it only listens.",
                "type",
            )
        match event:
            case client.InputAudioBufferAppend():
                self._append(event.audio)
            case client.SessionUpdate():
                self._update(event, event_id)
            case client.InputAudioBufferCommit():
                session.commit()
            case client.InputAudioBufferClear():
                self.input.clear()
                session.clear_input()
            case client.OutputAudioBufferClear():
                self._clear_output()
            case client.ItemCreate():
                session.items.create(from_wire(event.item, "item"), event.previous_item_id)
            case client.ItemRetrieve():
                return [self._retrieved(event.item_id)]
            case client.ItemDelete():
                session.items.delete(event.item_id)
            case client.ItemTruncate():
                session.items.truncate(event.item_id, event.content_index, event.audio_end_ms)
            case client.ResponseCreate():
                self._respond(event.response or ResponseParams())
            case client.ResponseCancel():
                session.cancel(event.response_id)
        return []

    def _append(self, audio: bytes) -> None:
        if self._paced:
            raise RequestError(
                "invalid_value", "Invalid 'type': the sound of a call comes on its track.", "type"
            )
        if not self.input.append(audio):
            raise RequestError(
                "invalid_value",
                f"Invalid 'audio': expected whole 16-bit samples, got {len(audio)} bytes.",
                "audio",
            )

    def _clear_output(self) -> None:
        if not self._paced:
            raise RequestError(
                "invalid_value",
                "Invalid 'type': output_audio_buffer.clear is for calls; a socket has no buffer.",
                "type",
            )
        self._session.clear_output()

    def _update(self, event: client.SessionUpdate, event_id: str | None) -> None:
        newest = self._newest()
        wanted = effect.effective(merge(newest, event.session), self._session.info)
        settings = effect.settings_of(
            wanted, self._session.settings, self._session.info, self._names
        )
        self._check_voice(settings.voice, "session.audio.output.voice")
        self._asked += 1
        ref = f"update_{self._asked}"
        self._updates[ref] = (event_id, wanted)
        self._session.update(ref, settings)
        self._note_tools(settings.tools)
        self._follow_format()

    def _newest(self) -> SessionObject:
        """The session object as the latest update wants it."""
        return next(reversed(self._updates.values()))[1] if self._updates else self._shown

    def _check_voice(self, voice: str, at: str) -> None:
        if self._spoken and voice != self._names.local_voice(self._session.settings.voice):
            raise RequestError(
                "cannot_update_voice",
                f"Invalid '{at}': the voice cannot change once the assistant has spoken.",
                at,
            )

    def _respond(self, params: ResponseParams) -> None:
        voice = None
        if params.voice is not None:
            at = "response.audio.output.voice"
            voice = self._names.voice(params.voice, at)
            self._check_voice(voice, at)
            self._voice_names[voice] = params.voice
        request = request_of(params, self._session.info, self._session.settings.max_tokens)
        self._note_tools(request.tools)
        if params.input is not None:
            context = tuple(self._item(item, index) for index, item in enumerate(params.input))
            bounds.check_input(context, "response.input")
            request = replace(request, input=context)
        self._format = params.format
        try:
            self._session.respond(replace(request, voice=voice))
        finally:
            self._format = None

    def _note_tools(self, tools: tuple[Tool, ...] | None) -> None:
        """Says once that this session's tools are taken and shown, but called by nobody."""
        if tools and not self._session.info.can.tools and not self._tools_noted:
            self._tools_noted = True
            log.info("tools are not called by this engine", session=self._session.id)

    def _item(self, item: WireItem | ItemReference, index: int) -> Item:
        if isinstance(item, ItemReference):
            return self._session.items.find(item.id)
        return from_wire(item, f"response.input[{index}]")

    def _retrieved(self, item_id: str) -> ServerEvent:
        """The item, with its caller's sound if events carry sound and it is kept and not long."""
        shown = to_wire(self._session.items.find(item_id), transcripts=self._transcribes)
        sound = None if self._paced else self._session.sound_of(item_id)
        rate = self._session.info.input_rate
        if sound is not None and len(sound) <= LONGEST * rate and isinstance(shown, Message):
            encoder = OutputEncoder(self._shown.audio.input.format.coding, rate)
            audio = base64.b64encode(encoder.push(sound) + encoder.flush()).decode()
            shown = replace(shown, content=[with_audio(part, audio) for part in shown.content])
        return events.ItemRetrieved(item=shown)

    def _follow_format(self) -> None:
        """A client sends its new format at once: it need not wait for its update to hold."""
        if (wanted := self._newest().audio.input.format.coding) != self.input.coding:
            self.input.coding = wanted

    # Happenings ---------------------------------------------------------------------------------

    def render(self, happening: Happening) -> list[ServerEvent]:
        """What every subscriber hears of ``happening``, in order."""
        match happening:
            case happen.SettingsApplied():
                _, self._shown = self._updates.pop(happening.ref)
                return [events.SessionUpdated(session=self._shown)]
            case happen.SettingsRefused():
                return [self._refused(happening)]
            case (
                happen.TranscriptDelta() | happen.TranscriptCompleted() | happen.TranscriptFailed()
            ):
                return [rendering.transcription(happening)] if self._transcribes else []
            case happen.ReplyStarted():
                return [self._begin(happening)]
            case happen.ReplyItemStarted():
                return self._open[happening.reply].start_item(happening)
            case happen.ReplyText():
                return self._open[happening.reply].text(happening)
            case happen.ReplyAudio():
                self._spoken = True
                return self._open[happening.reply].audio(happening)
            case happen.ReplyItemEnded():
                return self._open[happening.reply].end_item(happening)
            case happen.ReplyEnded():
                shown = self._open.pop(happening.reply).output
                response = response_of(happening, self._conversation, shown)
                return [events.ResponseDone(response=response), events.RateLimitsUpdated()]
        event = rendering.render(happening)
        return [event] if event else []

    @property
    def _transcribes(self) -> bool:
        return self._shown.audio.input.transcription is not None

    def _refused(self, refused: happen.SettingsRefused) -> ServerEvent:
        event_id, _ = self._updates.pop(refused.ref)
        self._follow_format()
        param = effect.param_of(refused.param)
        error = RequestError("invalid_value", f"Invalid '{param}': {refused.message}.", param)
        return events.refusal(error, event_id)

    def _begin(self, started: happen.ReplyStarted) -> ServerEvent:
        sounds = started.modality == "audio" and not self._paced
        shown = self._sounding(started.voice)
        encoder = (
            OutputEncoder(shown.format.coding, self._session.info.output_rate) if sounds else None
        )
        self._open[started.reply] = OpenResponse(
            started.reply, started.modality, started.out_of_band, shown, encoder
        )
        return events.ResponseCreated(response=response_of(started, self._conversation, shown))

    def _sounding(self, voice: str) -> OutputShown:
        """How the response that begins now sounds, in the client's own words."""
        assert isinstance(self._shown, RealtimeSession)
        output = self._shown.audio.output
        used = self._names.local_voice(voice)
        own = used == self._names.local_voice(self._session.settings.voice)
        return OutputShown(
            format=self._format or output.format,
            voice=output.voice if own else self._voice_names.get(used, used),
        )
