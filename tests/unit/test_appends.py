"""Sound that a client appends is read the short way only where that is what its JSON says."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from server.protocol.live import client_events as client
from server.protocol.wire import MAX_EVENT, Appends, convert, decode
from server.requests import RequestError

KIND = "session.input_audio.append"
appends = Appends(KIND)
blanks = st.text(" \t\r\n", max_size=3)


def by_json(raw: bytes) -> bytes | None:
    """The sound of an event, read as any other event is."""
    try:
        event = convert(decode(raw), client.ClientEvent)
    except RequestError:
        return None
    return event.audio if isinstance(event, client.InputAudioAppend) else None


@given(st.binary(max_size=64), st.lists(blanks, min_size=8, max_size=8))
def test_however_it_is_spaced_it_is_what_the_json_says(sound: bytes, gaps: list[str]) -> None:
    written = json.dumps(base64.b64encode(sound).decode())
    parts = ["{", '"type"', ":", f'"{KIND}"', ",", '"audio"', ":", f"{written}}}"]
    raw = "".join(part + gap for part, gap in zip(parts, ["", *gaps[:6], ""], strict=True)).encode()
    assert appends.sound(raw) == by_json(raw) == sound


@given(st.text('AQ=/+-_" \\,:{}\n\0é', max_size=12))
def test_what_is_no_base64_or_says_more_is_not_read_the_short_way(text: str) -> None:
    raw = f'{{"type":"{KIND}","audio":"{text}"}}'.encode()
    sound = appends.sound(raw)
    assert sound is None or sound == by_json(raw)


def test_every_other_event_is_left_to_the_json() -> None:
    plain = {"type": KIND, "audio": "AAAA"}
    others = (plain | {"event_id": "e"}, plain | {"type": "session.close"}, {"audio": "AAAA"})
    for other in others:
        assert appends.sound(json.dumps(other).encode()) is None
    assert appends.sound(json.dumps(plain)) is None
    assert appends.sound(b"[" + json.dumps(plain).encode()) is None
    long = json.dumps(plain | {"audio": "A" * MAX_EVENT}).encode()
    assert appends.sound(long) is None


def test_a_quote_that_both_opens_and_ends_is_no_sound() -> None:
    assert appends.sound(f'{{"type":"{KIND}","audio":"}}'.encode()) is None
