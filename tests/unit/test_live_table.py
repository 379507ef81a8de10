"""``docs/protocol.md`` has a row for everything GPT-Live has, and each says what is true of it.

What is only accepted, or refused, is written down here once more, so that neither list grows by
itself. An event that both sides may send has a row for each.
"""

from __future__ import annotations

from collections.abc import Iterator

import openai.types.live as api
import pytest
from openai.types.live.media_session_config_param import MediaSessionConfigParam

from tests.unit import protocol_page as page
from tests.unit.protocol_page import fields, models, tag

ACCEPTED = {
    "session.delegation.client.acknowledgement_delay_ms",
    "session.client.data_channel.allowed_server_events.response_event",
    "session.safety_identifier",
    "session.update.session.delegation.client.acknowledgement_delay_ms",
    *(
        f"session.input.{role}.{name}"
        for role in ("assistant", "developer", "user")
        for name in ("id", "status")
    ),
}
REFUSED_EVENTS = {
    "decision.create",
    "decision.event",
    "decision.item.create",
    "decision.item.created",
    "decision.item.delete",
    "decision.item.deleted",
    "info",
    "response.create",
    "response.event",
    "response.item.create",
    "session.output_audio.fixture.play",
    "session.output_audio.fixture.played",
    "session.output_audio.fixture.playing",
    "session.paused",
    "session.resumed",
    "session.usage.updated.context_window",
    "transport.answered",
    "transport.dtmf.received",
    "transport.dtmf.send",
    "transport.dtmf.send from the server",
    "transport.dtmf.sent",
    "transport.failed",
    "transport.ringing",
}
REFUSED = {
    f"{at}.delegation.{owner}{more}"
    for at in ("session", "session.update.session")
    for owner in ("responses", "decisions")
    for more in ("", f".{owner}", ".acknowledgement_delay_ms")
} | {
    "session.idle_timeout_s",
    "session.store",
    "session.triggers",
    "session.update.session.triggers",
    "session.wake_policy",
}
WITHIN = {"audio", "format", "output", "delegation", "client", "data_channel"}
"""Objects whose own fields have rows."""
COMMON = {"type", "event_id", "client_event_id"}
CLIENT = page.events([api.ClientEvent, api.ConnectClientEvent], COMMON)
SERVER = page.events([api.ServerEvent, api.ConnectServerEvent], COMMON)
EVENTS = CLIENT | {
    f"{name} from the server" if name in CLIENT else name: there for name, there in SERVER.items()
}
ROWS = page.rows("GPT-Live")


def messages() -> Iterator[str]:
    """The rows of the history that a session begins with."""
    for model in models(api.InitialItem):
        at = f"session.input.{tag(model, 'role')}"
        yield from (row for row in fields(model, at, ()) if row != f"{at}.content")
        for part in models(model.model_fields["content"].annotation, (list,)):
            yield from fields(part, f"{at}.content", ())


def objects() -> set[str]:
    """The rows of everything that is no event."""
    allowed = "session.client.data_channel.allowed_server_events"
    return {
        *fields(api.SessionConfig, "session", WITHIN),
        *fields(api.SessionResource, "session", WITHIN),
        *(
            f"session.{name}"
            for name in MediaSessionConfigParam.__annotations__
            if name not in WITHIN
        ),
        *fields(api.SessionUpdateConfig, "session.update.session", WITHIN),
        *fields(api.ServerEventSelector, allowed, WITHIN),
        *messages(),
    }


def test_every_field_has_its_row() -> None:
    page.check_besides(ROWS, EVENTS, objects())


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_has_its_row_and_all_its_fields(event: str) -> None:
    page.check_event(ROWS, event, EVENTS[event])


@pytest.mark.parametrize(
    ("status", "listed"), [("accepted", ACCEPTED), ("refused", REFUSED | REFUSED_EVENTS)]
)
def test_nothing_more_and_nothing_less_is_accepted_or_refused(
    status: str, listed: set[str]
) -> None:
    assert page.of_status(ROWS, status) == listed


def test_each_row_says_one_of_three_things() -> None:
    assert {row[-2] for row in ROWS.values()} == {"done", "accepted", "refused"}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_done_is_shown_by_a_test_that_exists(name: str) -> None:
    page.check_shown(ROWS[name])
