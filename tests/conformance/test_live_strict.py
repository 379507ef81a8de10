"""The strictest Live client takes what is right, and only that."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.conformance.live_strict import StrictLive

SESSION = {
    "id": "live_1",
    "expires_at": 1 << 40,
    "model": "gpt-live-1",
    "status": "active",
    "audio": {"format": {"type": "audio/pcm", "rate": 24_000}, "output": {"voice": "marin"}},
}
SECOND = base64.b64encode(bytes(48_000)).decode()
Event = dict[str, Any]
STARTED: Event = {"type": "session.started", "session": SESSION, "client_event_id": "start"}
CLOSED: Event = {
    "type": "session.closed",
    "session": SESSION,
    "reason": "close_requested",
    "usage": {"seconds": 1},
}
SOUND: Event = {"type": "session.output_audio.delta", "delta": SECOND}
MUTED: Event = {"type": "session.input_audio.muted", "client_event_id": "mute"}
ERROR: Event = {
    "type": "error",
    "error": {"type": "server_error", "code": "broken", "message": "It broke."},
}


def words(start: Any, end: Any, **fields: Any) -> Event:
    spoken = {"type": "session.output_transcript.delta", "delta": "one"}
    return spoken | {"start_ms": start, "end_ms": end} | fields


def judge(*events: Event) -> None:
    """Shows the strict client a session, a second of which passes with each second of sound."""
    now = 0.0
    strict = StrictLive(clock=lambda: now)
    strict.asks({"type": "session.start", "event_id": "start"})
    strict.asks({"type": "session.input_audio.mute", "event_id": "mute"})
    for number, event in enumerate(events):
        now += 1.0 if event["type"] == SOUND["type"] else event.get("after", 0.0)
        told = {name: value for name, value in event.items() if name != "after"}
        strict.see(json.dumps({"event_id": f"event_{number}"} | told))
    strict.finish()


def test_a_session_that_is_right_passes() -> None:
    judge(ERROR, STARTED, MUTED, SOUND, words(0, 900), words(900, 1_200), ERROR, CLOSED)


@pytest.mark.parametrize(
    "events",
    [
        (SOUND, STARTED, MUTED, SOUND, CLOSED),
        (STARTED, STARTED, MUTED, SOUND, CLOSED),
        (STARTED, MUTED, SOUND, CLOSED, CLOSED),
        (STARTED, MUTED, SOUND),
        (STARTED, SOUND, CLOSED),
        (STARTED, MUTED, MUTED, SOUND, CLOSED),
        (STARTED, MUTED | {"client_event_id": "start"}, SOUND, CLOSED),
        (STARTED, MUTED, SOUND, SOUND, SOUND, SOUND | {"delta": SECOND * 4}, CLOSED),
        (STARTED, MUTED, SOUND, SOUND, SOUND, CLOSED),
        (STARTED, MUTED, SOUND, CLOSED | {"after": 2.0}),
        (STARTED, MUTED, SOUND | {"start_ms": 0, "end_ms": 1_000}, CLOSED),
        (STARTED, MUTED, SOUND, words(900, 1_200), words(0, 900), CLOSED),
        (STARTED, MUTED, SOUND, words(900, 800), CLOSED),
        (STARTED, MUTED, SOUND, words(0, 900, event_id="event_2"), CLOSED),
        (STARTED, MUTED, SOUND, words(60_000, 61_000), CLOSED),
        (STARTED, MUTED, SOUND, CLOSED | {"session": SESSION | {"id": "live_2"}}),
        (STARTED, MUTED, SOUND, ERROR | {"client_event_id": "mute"}, CLOSED),
    ],
)
def test_a_session_that_is_out_of_order_does_not(events: tuple[Event, ...]) -> None:
    with pytest.raises(AssertionError):
        judge(*events)


@pytest.mark.parametrize(
    "event",
    [
        words(0.5, 900),
        words("0", 900),
        words(0, 900, speaker=1),
        words(0, None),
        ERROR | {"error": {"type": "server_error", "message": "It broke.", "code": None}},
        MUTED | {"client_event_id": None},
        {"type": "session.unheard"},
    ],
)
def test_an_event_that_the_package_does_not_know_does_not(event: Event) -> None:
    with pytest.raises((AssertionError, ValidationError)):
        judge(STARTED, MUTED, SOUND, event, CLOSED)
