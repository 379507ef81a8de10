"""What a client can make the server hold, resend or chew on has an end, and the end is told."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from server.conversation import Content, Item
from server.protocol import bounds, wire
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
    raw = json.dumps(fields | {"event_id": "e", "x": [[]]}).encode()
    with pytest.raises(RequestError):
        wire.decode(raw)
    assert wire.decode(wire.Appends("input_audio_buffer.append").unpack(raw))["audio"] == bytes(
        3 * wire.MAX_EVENT
    )
    code, param, message = refused(Bench(), "session.update", session={"instructions": sound})
    assert (code, param) == ("event_too_large", None)
    assert "appends sound" in message


@pytest.mark.parametrize("container", ["[]", "{}", '{"[\\"":1}'])
def test_containers_are_counted_before_any_is_made(container: str) -> None:
    inner = [container] * (wire.MAX_CONTAINERS - 2)
    told = '["\\\\", "\\"[[", "' + "[{" * wire.MAX_CONTAINERS + '"'
    assert wire.decode(f'{{"x": {told},{",".join(inner)}]}}')
    with pytest.raises(RequestError, match=f"{wire.MAX_CONTAINERS} containers") as refusal:
        wire.decode(f'{{"x": {told},{",".join([*inner, container])}]}}')
    assert refusal.value.code == "invalid_event"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"x":', "}")])
def test_depth_is_bounded(opening: str, closing: str) -> None:
    inner = wire.MAX_DEPTH - 1
    deep = f'{{"x": {opening * inner}1{closing * inner}}}'
    assert wire.decode(deep)
    with pytest.raises(RequestError, match="nested levels"):
        wire.decode(f'{{"x": {deep}}}')


def message(text: str, parts: int = 1) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}] * parts
    return {"type": "message", "role": "user", "content": content}


def output(text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "c", "output": text}


def call(arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "name": "f", "arguments": arguments}


@pytest.mark.parametrize(
    ("item", "param", "limit"),
    [
        (message("x" * (bounds.ITEM_TEXT + 1)), "item.content", bounds.ITEM_TEXT),
        (message("é" * (bounds.ITEM_TEXT + 1)), "item.content", bounds.ITEM_TEXT),
        (call("x" * (bounds.ITEM_TEXT + 1)), "item.arguments", bounds.ITEM_TEXT),
        (output("x" * (bounds.TOOL_OUTPUT + 1)), "item.output", bounds.TOOL_OUTPUT),
    ],
)
def test_an_item_holds_so_much_text(item: dict[str, Any], param: str, limit: int) -> None:
    code, named, told = refused(Bench(), "conversation.item.create", item=item)
    assert (code, named) == ("string_above_max_length", param)
    assert f"expected at most {limit} characters, got {limit + 1}" in told


@pytest.mark.parametrize(
    "item",
    [
        message("x" * (bounds.ITEM_TEXT // 2), 2),
        call("x" * bounds.ITEM_TEXT),
        output("x" * bounds.TOOL_OUTPUT),
    ],
)
def test_an_item_may_be_as_long_as_its_limit(item: dict[str, Any]) -> None:
    bench = Bench()
    assert bench.send(json.dumps({"type": "conversation.item.create", "item": item})) == []
    assert bench.client.types[-1] == "conversation.item.done"


def test_the_parts_of_an_item_count_together() -> None:
    item = message("x" * (bounds.ITEM_TEXT // 2 + 1), 2)
    told = refused(Bench(), "conversation.item.create", item=item)
    assert told[:2] == ("string_above_max_length", "item.content")


def test_an_item_has_so_many_parts() -> None:
    item = message("", bounds.PARTS + 1)
    assert refused(Bench(), "conversation.item.create", item=item)[:2] == (
        "invalid_value",
        "item.content",
    )


@pytest.mark.parametrize(
    ("kind", "field"), [("session.update", "session"), ("response.create", "response")]
)
def test_instructions_and_tools_are_bounded(kind: str, field: str) -> None:
    def of(**fields: Any) -> tuple[str, str | None, str]:
        typed = {"type": "realtime"} if field == "session" else {}
        return refused(Bench(), kind, **{field: typed | fields})

    code, param, told = of(instructions="é" * (bounds.INSTRUCTIONS + 1))
    assert (code, param) == ("string_above_max_length", f"{field}.instructions")
    assert f"at most {bounds.INSTRUCTIONS} characters, got {bounds.INSTRUCTIONS + 1}" in told
    parameters = {"type": "object", "description": "x" * (bounds.TOOLS // 2)}
    tools = [{"type": "function", "name": name, "parameters": parameters} for name in "ab"]
    code, param, told = of(tools=tools)
    assert (code, param) == ("string_above_max_length", f"{field}.tools")
    assert f"at most {bounds.TOOLS} bytes of JSON" in told


def test_a_session_cannot_be_made_to_grow_update_by_update() -> None:
    bench = Bench()
    codes = set()
    for key in "abcdefgh":
        session = {"type": "realtime", "tracing": {key: "x" * 100_000}}
        answer = bench.send(json.dumps({"type": "session.update", "session": session}))
        codes |= {event["error"]["code"] for event in answer}  # type: ignore[index]
    assert codes == {"string_above_max_length"}
    assert len(bench.session.updates) == bounds.SESSION // 100_000


def test_references_cannot_make_a_response_read_one_item_a_thousand_times() -> None:
    bench = Bench()
    bench.session.items.create(
        Item(id="i", content=(Content(kind="text", text="x" * 60_000),)), None
    )
    reference = {"type": "item_reference", "id": "i"}
    code, param, told = refused(bench, "response.create", response={"input": [reference] * 1000})
    assert (code, param) == ("string_above_max_length", "response.input")
    assert f"at most {bounds.INPUT} characters in all, got 60000000" in told
