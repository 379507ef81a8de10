"""A session without an engine: it takes requests and tells what a test makes happen.

Replies and the conversation are the server's own, so ids and order are those of a real session;
what an engine and a caller would do, the test does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from engine.audio.pcm import floats
from engine.contract import Abilities, EngineInfo, Samples, Sound, Tool, ToolCall, Usage
from server import happenings as happen
from server.conversation import Content, Conversation, Item
from server.happenings import Happening
from server.items import Items
from server.protocol.adapter import Terms
from server.protocol.event import encode
from server.protocol.realtime.opening import Kind, open_session
from server.replies import Outcome, Replies, Reply, new_id
from server.requests import ReplyRequest, RequestError, SessionSettings
from server.session import Session
from server.settings import Names
from tests.conformance.strict import StrictClient

INFO = EngineInfo(
    name="fake",
    input_rate=16_000,
    output_rate=24_000,
    voices=("anna", "bruno"),
    can=Abilities(text=True, tools=True, transcripts=True),
)
NAMES = Names(voices={"alloy": "", "cedar": "bruno"})
WEATHER = Tool(name="weather", parameters={"type": "object"})


class FakeSession:
    """Takes what a :class:`server.session.Session` takes; ``requests``: the replies asked for."""

    def __init__(self, info: EngineInfo, tell: Callable[[Happening], None]) -> None:
        self.id = "sess_fake"
        self.info = info
        self.settings = SessionSettings()
        self.conversation = Conversation()
        self.room = 10 * info.input_rate
        self.heard: list[Samples] = []
        self.updates: list[tuple[str, SessionSettings]] = []
        self.requests: list[ReplyRequest] = []
        self.sounds: dict[str, Samples] = {}
        self.tell = tell
        self.items = Items(self.conversation, tell, lambda: None, info)
        self.replies = Replies(self.conversation, tell, info.output_rate, live=False)
        self._ms = 0

    def hear(self, sound: Sound) -> int:
        self.heard.append(floats(sound))
        self.room -= len(sound)
        return self.room

    def update(self, ref: str, settings: SessionSettings) -> None:
        self.updates.append((ref, settings))

    def apply(self) -> None:
        ref, self.settings = self.updates.pop(0)
        self.tell(happen.SettingsApplied(ref=ref))

    def refuse(self, param: str = "voice") -> None:
        ref, _ = self.updates.pop(0)
        self.tell(happen.SettingsRefused(ref=ref, param=param, message="not now"))

    def commit(self) -> None:
        if not self.heard:
            raise RequestError("input_audio_buffer_commit_empty", "0 ms of sound")
        self.heard.clear()
        self.say_turn(new_id("item"))

    def clear_input(self) -> None:
        self.heard.clear()
        self.tell(happen.InputCleared())

    def sound_of(self, item_id: str) -> Samples | None:
        return self.sounds.get(item_id)

    def respond(self, request: ReplyRequest) -> None:
        if not request.out_of_band and self.replies.active():
            raise RequestError("conversation_already_has_active_response", "one at a time")
        self.requests.append(request)
        self.replies.begin(
            Reply(
                new_id("resp"),
                request.modality or self.settings.modality,
                request.voice or self.settings.voice,
                request.max_tokens or self.settings.max_tokens,
                request.out_of_band,
                request.metadata,
                request.parallel_calls is not False,
                turn_ms=1250,
            )
        )

    def cancel(self, reply: str | None) -> None:
        found = self.replies.get(reply) if reply else self.replies.active()
        if found is None:
            raise RequestError("response_cancel_not_active", "Cancellation failed: nothing runs")
        self.replies.end(found, Outcome("cancelled", "client_cancelled"))

    def clear_output(self) -> None:
        self.tell(happen.PlayoutCleared(reply="resp_fake"))

    # What happens -------------------------------------------------------------------------------

    def say_turn(self, item_id: str) -> None:
        """The caller said something, which stands as item ``item_id``."""
        item = Item(id=item_id, content=(Content(kind="audio"),), turn=f"turn_{item_id}")
        previous = self.conversation.add(item)
        self.tell(happen.InputCommitted(item=item_id, previous=previous))
        self._add(item, previous)

    def speak(self, detected: bool = True) -> str:
        """A whole turn of a caller; returns its item."""
        item_id = new_id("item")
        self._ms += 900
        self.tell(happen.SpeechStarted(item=item_id, at_ms=self._ms))
        self._ms += 1200
        self.tell(happen.SpeechStopped(item=item_id, at_ms=self._ms))
        if detected:
            self.say_turn(item_id)
        else:
            self.tell(happen.InputCleared())
        return item_id

    def transcribe(self, item_id: str, *words: str) -> None:
        for word in words:
            self.tell(happen.TranscriptDelta(item=item_id, text=word))
        text = "".join(words)
        self.conversation.transcribe(item_id, text)
        self.tell(happen.TranscriptCompleted(item=item_id, text=text, seconds=1.25))

    def say(self, reply: Reply, text: str, milliseconds: int = 100) -> None:
        """More of a reply: words, and their sound if it sounds."""
        samples = self.info.output_rate * milliseconds // 1000
        if reply.modality == "audio":
            self.replies.sound(reply, np.full(samples, 0.25, np.float32))
        self.replies.say(reply, text, reply.made - samples, reply.made)

    def call(self, reply: Reply, arguments: str = '{"city":"Ulm"}') -> None:
        call = ToolCall(
            reply=reply.id, call_id=new_id("call"), name=WEATHER.name, arguments=arguments
        )
        self.replies.call(reply, call)

    def complete(self, reply: Reply) -> None:
        usage = Usage(input_tokens=40, output_tokens=7, cached_tokens=30)
        self.replies.end(reply, Outcome("completed", usage=usage))

    def _add(self, item: Item, previous: str | None) -> None:
        self.tell(happen.ItemAdded(item=item, previous=previous))
        self.tell(happen.ItemDone(item=item, previous=previous))


class Bench:
    """A fake session, its adapter and the strictest client at the other end of the wire."""

    def __init__(
        self, *, paced: bool = False, info: EngineInfo = INFO, kind: Kind = "realtime"
    ) -> None:
        self.client = StrictClient(paced=paced)
        self.session = FakeSession(info, self._tell)
        terms = Terms(info=info, names=NAMES, settings=self.session.settings, leg=paced)
        opening = open_session(None, terms, id=self.session.id, model="gpt-realtime", kind=kind)
        self.session.settings = opening.settings
        self.adapter = opening.adapter(cast(Session, self.session))
        self.client.see(encode(self.adapter.opening()[0]))

    def send(self, raw: str | bytes) -> list[dict[str, object]]:
        """Sends a client event; returns what its sender alone is answered."""
        return [self.client.see(encode(event)) for event in self.adapter.receive(raw)]

    def _tell(self, happening: Happening) -> None:
        for event in self.adapter.render(happening):
            self.client.see(encode(event))
