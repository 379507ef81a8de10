"""A long append is unpacked beside the loop; another long event is refused without a look at it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from server.protocol.realtime import client_events as client
from server.protocol.wire import MAX_AUDIO_EVENT, Appends, convert, decode
from server.requests import RequestError

unpack = Appends("input_audio_buffer.append").unpack

SOUND = bytes(range(256)) * 5_000
BASE64 = base64.b64encode(SOUND).decode()
APPEND = {"type": "input_audio_buffer.append", "audio": BASE64}


def taken(raw: bytes) -> Any:
    """The event in ``raw``, or the code and field by which it is refused."""
    try:
        return convert(decode(unpack(raw)), client.ClientEvent)
    except RequestError as error:
        return error.code, error.param


@pytest.mark.parametrize(
    "event",
    [
        APPEND,
        {"audio": BASE64, "event_id": "e", "type": "input_audio_buffer.append"},
        {"event_id": 'an "audio" \\ id', **APPEND},
        {**APPEND, "note": "audio", "inner": {"audio": "AAAA", "more": [{"audio": 1}]}},
    ],
)
def test_its_sound_is_that_of_the_event_wherever_it_stands(event: dict[str, Any]) -> None:
    for separators in ((",", ":"), (" , ", " : ")):
        raw = json.dumps(event, separators=separators).encode()
        assert taken(raw) == client.InputAudioBufferAppend(audio=SOUND)
    assert taken(raw.replace(b"/", b"\\/")) == client.InputAudioBufferAppend(audio=SOUND)


def test_what_is_of_the_plainest_form_is_unpacked() -> None:
    unpacked = unpack(json.dumps(APPEND | {"event_id": "e"}).encode())
    assert unpacked == {"type": APPEND["type"], "audio": SOUND, "event_id": "e"}


@pytest.mark.parametrize(
    "event",
    [
        APPEND | {"audio": BASE64[:65_532] + "====" + BASE64[65_536:]},
        APPEND | {"audio": BASE64 + "A"},
        APPEND | {"audio": BASE64.replace("B", "é")},
        APPEND | {"audio": "A" * MAX_AUDIO_EVENT},
        {"note": "audio", **APPEND},
        {"inner": {"audio": "AAAA"}, **APPEND},
    ],
    ids=["padding amid", "cut off", "no base64", "too long", "a word before", "another before"],
)
def test_one_of_another_form_is_told_the_form_it_must_have(event: dict[str, Any]) -> None:
    raw = unpack(json.dumps(event).encode())
    with pytest.raises(RequestError, match='first "audio" is its sound, in whole base64') as told:
        decode(raw)
    assert told.value.code == "event_too_large"


@pytest.mark.parametrize("first", [b"\xff", b"\x03"])
def test_escaped_slashes_are_slashes_wherever_it_is_cut(first: bytes) -> None:
    sound = first + b"\xff" * 1_500_000
    audio = base64.b64encode(sound).replace(b"/", b"\\/")
    raw = b'{"type":"input_audio_buffer.append","audio":"%s"}' % audio
    assert taken(raw) == client.InputAudioBufferAppend(audio=sound)


@pytest.mark.parametrize(
    "raw",
    [b"", b"x" * 2_000_000, b'{"audio"', b'"audio"' * 300_000, b'{"type":"x","audio":""}'],
)
def test_what_is_no_append_is_given_back_as_it_came(raw: bytes) -> None:
    assert unpack(raw) is raw


def test_other_events_do_not_become_long_by_a_sound_beside_them() -> None:
    raw = json.dumps({"type": "response.create", "audio": BASE64}).encode()
    assert taken(raw) == ("event_too_large", None)
