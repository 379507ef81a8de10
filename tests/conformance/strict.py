"""The strictest client: every event must pass what any known client demands, in the API's order.

The schema is that of the ``openai`` package, used as ``openai-agents`` uses it. Beyond it stand the
demands of other clients (a key that must be there, one that must not be null) and the order of a
response's events, of a transcription's, and what must agree between them.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any

from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

LARGEST = 8 * 2**20
"""Bytes of an event that ``openai-agents`` still takes."""

_schema: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)

_LETTERS = {
    "response.output_item.added": "O",
    "conversation.item.added": "C",
    "response.content_part.added": "P",
    "response.output_audio.delta": "s",
    "response.output_audio_transcript.delta": "d",
    "response.output_text.delta": "x",
    "response.function_call_arguments.delta": "f",
    "response.output_audio.done": "S",
    "response.output_audio_transcript.done": "D",
    "response.output_text.done": "X",
    "response.function_call_arguments.done": "F",
    "response.content_part.done": "p",
    "conversation.item.done": "c",
    "response.output_item.done": "o",
}
_SEQUENCES = {
    "audio": re.compile("O(C)?P[sd]*SDp(?(1)c)o"),
    "text": re.compile("O(C)?Px*Xp(?(1)c)o"),
    "function_call": re.compile("O(C)?f+F(?(1)c)o"),
}


@dataclass
class _Output:
    """An output item that is being made: the letters of its events, and what its deltas said."""

    item: dict[str, Any]
    response: str
    index: int
    letters: str = ""
    said: str = ""
    sound: bytes = b""
    part: str = ""


@dataclass
class _Transcription:
    said: str = ""
    ended: bool = False


@dataclass
class StrictClient:
    """Sees a session's events; an :class:`AssertionError` or a validation error is a verdict.

    ``paced``: the sound comes on a track, as with WebRTC.
    """

    paced: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)
    sound: dict[str, bytes] = field(default_factory=dict)
    """The sound of each item, as it came."""

    def __post_init__(self) -> None:
        self._ids: set[str] = set()
        self._responses: dict[str, dict[str, Any]] = {}
        self._outputs: dict[str, _Output] = {}
        self._finished: dict[str, list[str]] = {}
        self._done: set[str] = set()
        self._transcriptions: dict[str, _Transcription] = {}

    def see(self, text: str | bytes) -> dict[str, Any]:
        """Takes the next event off the wire."""
        assert len(text) < LARGEST
        event: dict[str, Any] = json.loads(text)
        _schema.validate_python(event)
        if event.get("previous_item_id", "") is None:
            _schema.validate_python(event | {"previous_item_id": ""})
        kind = event["type"]
        assert event["event_id"] not in self._ids
        self._ids.add(event["event_id"])
        assert self.events or kind == "session.created", f"{kind} before session.created"
        self.events.append(event)
        self._demand(event)
        self._follow(event)
        return event

    def finish(self) -> None:
        """Nothing may be left open."""
        assert not self._responses
        assert not self._outputs

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    # What other clients demand ------------------------------------------------------------------

    def _demand(self, event: dict[str, Any]) -> None:
        _check_numbers(event)
        kind = event["type"]
        if kind == "error":
            assert event["error"].keys() == {"type", "code", "message", "param", "event_id"}
        if "session" in event:
            _check_session(event["session"])
        if "item" in event:
            _check_item(event["item"])
        if "response" in event:
            _check_response(event["response"], done=kind == "response.done")
        if "input_audio_transcription" in kind:
            assert event["content_index"] == 0
            assert None not in event.get("error", {}).values()
        assert not (self.paced and kind == "response.output_audio.delta")
        assert self.paced or not kind.startswith("output_audio_buffer.")

    # What must follow what ----------------------------------------------------------------------

    def _follow(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "response.created":
            response = event["response"]
            assert response["id"] not in self._done | self._responses.keys()
            self._responses[response["id"]] = response
            self._finished[response["id"]] = []
        elif kind == "response.done":
            self._end(event["response"])
        elif "input_audio_transcription" in kind:
            self._transcribe(event)
        elif kind in _LETTERS:
            self._make(event)

    def _end(self, response: dict[str, Any]) -> None:
        began = self._responses.pop(response["id"])
        self._done.add(response["id"])
        assert not any(output.response == response["id"] for output in self._outputs.values())
        assert [item["id"] for item in response["output"]] == self._finished[response["id"]]
        same = ("metadata", "conversation_id", "output_modalities", "max_output_tokens", "object")
        assert all(began[key] == response[key] for key in same)

    def _make(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        item_id = event["item"]["id"] if "item" in event else event["item_id"]
        if kind == "response.output_item.added":
            made = self._finished[event["response_id"]]
            assert event["output_index"] == len(made)
            self._outputs[item_id] = _Output(
                event["item"], event["response_id"], event["output_index"]
            )
            assert event["item"]["status"] == "in_progress"
        output = self._outputs.get(item_id)
        if output is None:
            assert kind.startswith("conversation.item."), f"{kind} of no open output"
            return
        output.letters += _LETTERS[kind]
        assert event.get("response_id", output.response) == output.response
        assert event.get("output_index", output.index) == output.index
        self._say(event, output)
        if kind == "response.output_item.done":
            self._close(output)

    def _say(self, event: dict[str, Any], output: _Output) -> None:
        match event["type"].removeprefix("response."):
            case "output_audio.delta":
                output.sound += base64.b64decode(event["delta"], validate=True)
            case (
                "output_audio_transcript.delta"
                | "output_text.delta"
                | "function_call_arguments.delta"
            ):
                output.said += event["delta"]
            case "output_audio_transcript.done":
                assert event["transcript"] == output.said
            case "output_text.done":
                assert event["text"] == output.said
            case "function_call_arguments.done":
                assert event["arguments"] == output.said
                assert event["name"] == output.item["name"]
                assert event["call_id"] == output.item["call_id"]
            case "content_part.added":
                output.part = event["part"]["type"]
            case "content_part.done":
                said = {"audio": "transcript", "text": "text"}[output.part]
                assert event["part"] == {"type": output.part, said: output.said}

    def _close(self, output: _Output) -> None:
        item = output.item
        sequence = _SEQUENCES[output.part if item["type"] == "message" else item["type"]]
        match = sequence.fullmatch(output.letters)
        assert match, f"{output.letters} is no {sequence.pattern}"
        in_conversation = self._responses[output.response]["conversation_id"] is not None
        assert bool(match[1]) == in_conversation
        if item["type"] == "message":
            assert self._responses[output.response]["output_modalities"] == [output.part]
        self.sound[item["id"]] = output.sound
        self._finished[output.response].append(item["id"])
        del self._outputs[item["id"]]

    def _transcribe(self, event: dict[str, Any]) -> None:
        heard = self._transcriptions.setdefault(event["item_id"], _Transcription())
        assert not heard.ended
        if event["type"].endswith(".delta"):
            heard.said += event["delta"]
            return
        heard.ended = True
        if event["type"].endswith(".completed"):
            assert event["transcript"] == heard.said
            assert event["usage"]["type"] == "duration"


def _check_numbers(value: Any) -> None:
    """Milliseconds are whole numbers."""
    if isinstance(value, list):
        for inner in value:
            _check_numbers(inner)
    if isinstance(value, dict):
        for key, inner in value.items():
            if key.endswith("_ms"):
                assert inner is None or type(inner) is int
            _check_numbers(inner)


def _check_session(session: dict[str, Any]) -> None:
    objects = {"realtime": "realtime.session", "transcription": "realtime.transcription_session"}
    assert session["object"] == objects[session["type"]]
    assert session["id"].startswith("sess_")
    heard = session["audio"]["input"]
    assert {"format", "noise_reduction", "transcription", "turn_detection"} <= heard.keys()
    if heard["transcription"] is not None:
        assert None not in heard["transcription"].values()
    if heard["turn_detection"] is not None:
        assert type(heard["turn_detection"]["interrupt_response"]) is bool
    if session["type"] == "transcription":
        assert not {"model", "instructions", "tools"} & session.keys()
        assert session["audio"].keys() == {"input"}
        return
    spoken = session["audio"]["output"]
    assert isinstance(spoken.get("voice", ""), str)
    for tool in session["tools"]:
        assert isinstance(tool["description"], str)


def _check_item(item: dict[str, Any]) -> None:
    assert isinstance(item["id"], str)
    assert item["object"] == "realtime.item"
    if item["type"] == "message":
        for part in item["content"]:
            if part["type"] in ("input_audio", "output_audio"):
                assert "transcript" in part
                assert part["type"] == "input_audio" or part["transcript"] is not None
    if item["type"] == "function_call":
        assert item["call_id"]


def _check_response(response: dict[str, Any], *, done: bool) -> None:
    assert (response["status"] != "in_progress") == done
    assert {"metadata", "conversation_id", "status_details", "output"} <= response.keys()
    assert isinstance(response["audio"]["output"].get("voice", ""), str)
    if not done:
        assert response["usage"] is None
        return
    usage = response["usage"]
    into, out = usage["input_token_details"], usage["output_token_details"]
    assert into["text_tokens"] + into["audio_tokens"] == usage["input_tokens"]
    assert out["text_tokens"] + out["audio_tokens"] == usage["output_tokens"]
    assert usage["input_tokens"] + usage["output_tokens"] == usage["total_tokens"]
    if response["status"] != "completed":
        assert response["status_details"]["type"] == response["status"]
    for item in response["output"]:
        _check_item(item)
