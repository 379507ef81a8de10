"""``docs/protocol.md`` has a row for everything Realtime has, and each says what is true of it.

What there is comes from the types of the ``openai`` package. A row that is *done* names tests that
exist; what is only accepted, or refused, is written down here once more, so that neither list
grows by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import openai.types.realtime as api
import pytest
from openai.types.realtime.realtime_session_create_response import RealtimeSessionCreateResponse
from openai.types.realtime.realtime_transcription_session_create_response import (
    RealtimeTranscriptionSessionCreateResponse,
)
from pydantic import BaseModel

from tests.unit import protocol_page as page
from tests.unit.protocol_page import kinds, models, tag

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


def fields(model: type[BaseModel], path: str) -> Iterator[str]:
    """See :func:`tests.unit.protocol_page.fields`."""
    return page.fields(model, path, WITHIN)


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


ROWS = page.rows("OpenAI Realtime")
EVENTS = page.events(
    [api.RealtimeClientEvent, api.RealtimeServerEvent], common={"type", "event_id"}
)


def test_every_field_has_its_row() -> None:
    page.check_besides(ROWS, EVENTS, objects())


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_has_its_row_and_all_its_fields(event: str) -> None:
    page.check_event(ROWS, event, EVENTS[event])


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
    assert page.of_status(ROWS, status) == listed


def test_each_row_says_one_of_three_things() -> None:
    assert {row[-2] for row in ROWS.values()} == {"done", "accepted", "refused"}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_done_is_shown_by_a_test_that_exists(name: str) -> None:
    page.check_shown(ROWS[name])
