"""``docs/protocol.md`` has a row for everything the API has, and each says what is true of it.

What there is comes from the types of the ``openai`` package. A row that is *done* names tests that
exist; what is only accepted, or refused, is written down here once more, so that neither list
grows by itself.
"""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import openai.types.realtime as api
import pytest
from openai.types.realtime.realtime_session_create_response import RealtimeSessionCreateResponse
from openai.types.realtime.realtime_transcription_session_create_response import (
    RealtimeTranscriptionSessionCreateResponse,
)
from pydantic import BaseModel

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/protocol.md"

ACCEPTED = {
    "session.audio.input.noise_reduction",
    "session.audio.input.transcription.keywords",
    "session.audio.input.transcription.prompt",
    "session.reasoning",
    "session.tracing",
    "session.truncation",
    "response.create.response.reasoning",
}
REFUSED = {
    "session.audio.output.speed",
    "session.include",
    "session.prompt",
    "session.tools.mcp",
    "session.tool_choice.mcp",
    "response.create.response.prompt",
    "item.message.user.input_image.image_url",
    "item.message.user.input_image.detail",
    "item.mcp_approval_request",
    "item.mcp_approval_response",
    "item.mcp_call",
    "item.mcp_list_tools",
    "mcp_list_tools.completed",
    "mcp_list_tools.failed",
    "mcp_list_tools.in_progress",
    "response.mcp_call.completed",
    "response.mcp_call.failed",
    "response.mcp_call.in_progress",
    "response.mcp_call_arguments.delta",
    "response.mcp_call_arguments.done",
    "conversation.item.input_audio_transcription.completed.logprobs",
    "conversation.item.input_audio_transcription.delta.logprobs",
    # No recogniser here tells speakers or languages apart, and none hears sound out of its turn.
    "conversation.item.input_audio_transcription.segment",
    "conversation.item.input_audio_transcription.completed.languages",
    "item.message.user.input_audio.audio in conversation.item.create",
}
WITHIN = {
    "audio",
    "input",
    "output",
    "format",
    "transcription",
    "turn_detection",
    "usage",
    "input_token_details",
    "output_token_details",
    "cached_tokens_details",
    "status_details",
    "error",
}
"""Objects whose own fields have rows."""
LISTENS = ("type", "object", "id", "expires_at", "audio")
"""What a session that only listens has of its own."""
EVENTS = [api.RealtimeClientEvent, api.RealtimeServerEvent]


def kinds(annotation: Any, opened: tuple[type, ...] = ()) -> list[Any]:
    """The alternatives of a type, null left out; ``opened`` containers by what is in them."""
    origin = get_origin(annotation)
    if origin is Annotated or origin in opened:
        return kinds(get_args(annotation)[0], opened)
    if origin in (Union, types.UnionType):
        return [kind for one in get_args(annotation) for kind in kinds(one, opened)]
    return [] if annotation is type(None) else [annotation]


def models(annotation: Any, opened: tuple[type, ...] = ()) -> list[type[BaseModel]]:
    return [
        k for k in kinds(annotation, opened) if isinstance(k, type) and issubclass(k, BaseModel)
    ]


def tag(model: type[BaseModel], name: str = "type") -> str:
    """The value by which a union tells ``model``."""
    return str(get_args(kinds(model.model_fields[name].annotation)[0])[0])


def fields(model: type[BaseModel], path: str) -> Iterator[str]:
    """A row's name for each field of ``model``, deeper where ``WITHIN`` says so."""
    for name, field in model.model_fields.items():
        inner = models(field.annotation) if name in WITHIN else []
        if not inner:
            yield f"{path}.{name}"
        for each in inner:
            if len(inner) == 1:
                yield from fields(each, f"{path}.{name}")
                continue
            at = f"{path}.{name}.{tag(each)}"
            yield at
            yield from (row for row in fields(each, at) if row != f"{at}.type")


def items() -> Iterator[str]:
    """The rows of items: their fields, and those of each part."""
    for model in models(api.ConversationItem):
        kind = tag(model)
        if kind.startswith("mcp"):
            yield f"item.{kind}"
            continue
        role = tag(model, "role") if kind == "message" else ""
        at = f"item.{kind}.{role}" if role else f"item.{kind}"
        yield from (row for row in fields(model, at) if row != f"{at}.content")
        for part in models(model.model_fields["content"].annotation, (list,)) if role else []:
            for label in get_args(kinds(part.model_fields["type"].annotation)[0]):
                yield from (
                    f"{at}.{label}.{name}" for name in PARTS[label] & set(part.model_fields)
                )


PARTS = {
    "input_text": {"text"},
    "input_audio": {"audio", "transcript"},
    "input_image": {"image_url", "detail"},
    "output_text": {"text"},
    "output_audio": {"audio", "transcript"},
}


def events() -> dict[str, set[str]]:
    """Every event, and its fields."""
    return {
        tag(model): set(model.model_fields) - {"type", "event_id"}
        for union in EVENTS
        for model in models(union)
    }


def objects() -> set[str]:
    """The rows of everything that is no event."""
    return {
        *fields(api.RealtimeSessionCreateRequest, "session"),
        *fields(RealtimeSessionCreateResponse, "session"),
        *fields(api.RealtimeResponseCreateParams, "response.create.response"),
        *fields(api.RealtimeResponse, "response"),
        *items(),
        "session.tools.mcp",
        "session.tool_choice.mcp",
        "item.message.user.input_audio.audio in conversation.item.create",
        *(f"transcription session.{name}" for name in LISTENS),
    }


def table() -> dict[str, list[str]]:
    """The page's rows by name: the cells behind it."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [row[0].strip("`") for row in rows]
    assert len(set(names)) == len(names)
    return {name: row[1:] for name, row in zip(names, rows, strict=True)}


ROWS = table()


def named(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def test_every_field_has_its_row() -> None:
    besides = {row for row in ROWS if row.startswith(tuple(f"{name}." for name in events()))}
    besides -= objects()
    assert set(ROWS) - set(events()) - besides == objects()


@pytest.mark.parametrize("event", events())
def test_every_event_has_its_row_and_all_its_fields(event: str) -> None:
    own = {row.removeprefix(f"{event}.") for row in ROWS if row.startswith(f"{event}.")}
    there = events()[event]
    assert named(ROWS[event][0]) | (own & there) == there


def test_a_session_that_listens_has_no_sound_of_another_kind() -> None:
    told = fields(RealtimeTranscriptionSessionCreateResponse, "session")
    asked = fields(api.RealtimeTranscriptionSessionCreateRequest, "session")
    flat = {
        f"session.audio.input.turn_detection.{name}"
        for name in ("type", "threshold", "prefix_padding_ms", "silence_duration_ms")
    }
    assert {*told, *asked} - flat <= objects()


@pytest.mark.parametrize(("status", "listed"), [("accepted", ACCEPTED), ("refused", REFUSED)])
def test_nothing_more_and_nothing_less_is_accepted_or_refused(
    status: str, listed: set[str]
) -> None:
    assert {name for name, row in ROWS.items() if row[-2] == status} == listed


def test_each_row_says_one_of_three_things() -> None:
    assert {row[-2] for row in ROWS.values()} == {"done", "accepted", "refused"}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_done_is_shown_by_a_test_that_exists(name: str) -> None:
    shown = re.findall(r"`(tests/[^`]+)::(test_\w+)`", ROWS[name][-1])
    assert shown or ROWS[name][-2] != "done"
    for path, test in shown:
        assert test in functions_of(path), f"{path} has no {test}"


def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}
