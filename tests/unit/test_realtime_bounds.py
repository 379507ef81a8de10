"""What a client can make the server hold, resend or chew on has an end, and the end is told."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from server.protocol.realtime import wire
from server.requests import RequestError
from tests.conformance.fake_session import Bench


def refused(bench: Bench, kind: str, **fields: Any) -> tuple[str, str | None, str]:
    answer: Any
    (answer,) = bench.send(json.dumps({"type": kind, **fields}))
    assert answer["type"] == "error"
    error = answer["error"]
    return error["code"], error["param"], error["message"]


@pytest.mark.parametrize("kind", ["session.update", "input_audio_buffer.append", "nonsense", None])
def test_a_long_event_is_refused_before_anything_in_it_is_walked(kind: str | None) -> None:
    nested = b'{"type": %s, "x": [%s[]]}' % (json.dumps(kind or "").encode(), b"[]," * 6_000_000)
    began = time.process_time()
    with pytest.raises(RequestError) as refusal:
        wire.decode(nested)
    assert time.process_time() - began < 1.0
    assert refusal.value.code == "event_too_large"
    assert f"got {len(nested)}" in refusal.value.message


def test_only_sound_may_be_long() -> None:
    sound = base64.b64encode(bytes(3 * wire.MAX_EVENT)).decode()
    fields = {"type": "input_audio_buffer.append", "audio": sound}
    assert wire.decode(json.dumps(fields | {"event_id": "e", "x": [[]]})) == fields
    code, param, message = refused(Bench(), "session.update", session={"instructions": sound})
    assert (code, param) == ("event_too_large", None)
    assert "input_audio_buffer.append" in message


def test_a_long_event_that_is_no_object_is_no_event() -> None:
    for raw in ("[" * 2_000_000, "[1," + "1," * 1_000_000 + "1]", '{"type":"' + "x" * 2_000_000):
        with pytest.raises(RequestError) as refusal:
            wire.decode(raw)
        assert refusal.value.code == "invalid_event"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"x":', "}")])
def test_depth_is_bounded(opening: str, closing: str) -> None:
    inner = wire.MAX_DEPTH - 1
    deep = f'{{"x": {opening * inner}1{closing * inner}}}'
    assert wire.decode(deep)
    with pytest.raises(RequestError, match="nested levels"):
        wire.decode(f'{{"x": {deep}}}')
