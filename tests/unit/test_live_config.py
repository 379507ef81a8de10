"""A Live session's configuration: each field of the API is taken, echoed or refused by its name."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types.live import SessionConfig, SessionResource
from openai.types.live.media_session_config_param import MediaSessionConfigParam
from pydantic import BaseModel

from engine.contract import Abilities, EngineInfo
from server.protocol.adapter import Terms
from server.protocol.event import encode
from server.protocol.live.config import Config, DataChannel, Delegation, config_of, updated
from server.protocol.live.delegation import DELEGATE
from server.protocol.live.opening import Opening, wanted
from server.protocol.wire import convert, decode
from server.requests import RequestError, SessionSettings
from server.settings import Names
from tests.conformance.fake_session import INFO

DEFAULTS = SessionSettings(instructions="Be brief.")
NAMES = Names(voices={"alloy": "", "cedar": "bruno"})
STRANGE: tuple[Any, ...] = (None, True, -1, 0, 0.5, 1e308, 2**63, 2**70, "", "x", [], {}, [{}])


def opened(given: Any, *, leg: bool = False, info: EngineInfo = INFO) -> Opening:
    """A session as it begins, by way of the wire's own decoder."""
    fields = decode(msgspec.json.encode({"session": given}))
    terms = Terms(info=info, names=NAMES, settings=DEFAULTS, expires_at=7, leg=leg)
    return wanted(config_of(fields["session"], leg=leg))("live_1", terms)


def shown(opening: Opening) -> dict[str, Any]:
    """The session as its events show it, which the package's type knows to the last field."""
    plain: dict[str, Any] = decode(encode(opening.shown))
    check_known(SessionResource.model_validate(plain, strict=True))
    return plain


def check_known(value: Any) -> None:
    """Nothing in ``value`` is a field that the package does not know."""
    if isinstance(value, BaseModel):
        assert not value.model_extra
        value = [getattr(value, name) for name in type(value).model_fields]
    if isinstance(value, list):
        for inner in value:
            check_known(inner)


def refused(given: Any, **where: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        opened(given, **where)
    return caught.value


words = st.text(st.characters(codec="utf-8"), max_size=6)
rates = {"audio/pcm": (16_000, 24_000), "audio/pcmu": (8_000,), "audio/pcma": (8_000,)}
formats = st.sampled_from([*rates]).flatmap(
    lambda kind: st.fixed_dictionaries(
        {"type": st.just(kind)}, optional={"rate": st.sampled_from(rates[kind])}
    )
)
voices = st.sampled_from(["alloy", "cedar", "anna", {"id": "bruno"}])
whole = {"id": words, "status": st.sampled_from(["completed", "incomplete"])}


def messages(role: str, *kinds: str) -> st.SearchStrategy[Any]:
    part = st.fixed_dictionaries({"text": words}, optional={"type": st.sampled_from(kinds)})
    optional = whole | {"type": st.just("message")}
    content = st.lists(part, min_size=1, max_size=1)
    return st.fixed_dictionaries({"role": st.just(role), "content": content}, optional=optional)


history = st.lists(
    messages("developer", "input_text")
    | messages("user", "input_text")
    | messages("assistant", "text", "output_text"),
    max_size=3,
)
delegations = st.fixed_dictionaries(
    {"type": st.just("client")}, optional={"acknowledgement_delay_ms": st.integers(0, 5_000)}
)
selectors = st.fixed_dictionaries({"type": words}, optional={"response_event": words})
channels = st.fixed_dictionaries(
    {},
    optional={
        "allowed_client_events": st.just("all") | st.lists(words, max_size=2),
        "allowed_server_events": st.just("all") | st.lists(selectors, max_size=2),
    },
)


@st.composite
def configs(draw: st.DrawFn, *, leg: bool) -> dict[str, Any]:
    """Whatever may be asked for, of a socket or a call (``leg``)."""
    sound = {} if leg else {"format": formats}
    output = st.fixed_dictionaries({}, optional={"voice": voices})
    optional: dict[str, st.SearchStrategy[Any]] = {
        "instructions": words | st.none(),
        "audio": st.fixed_dictionaries({}, optional={"output": output, **sound}),
        "delegation": delegations | st.none(),
        "input": history,
        "store": st.just(False),
        "safety_identifier": words | st.none(),
        "triggers": st.just([]),
    }
    if leg:
        optional["client"] = st.fixed_dictionaries({"data_channel": channels})
    model = st.sampled_from(["gpt-live-1", "gpt-live-1.1", "parley"])
    return draw(st.fixed_dictionaries({"model": model}, optional=optional))


either = st.booleans().flatmap(lambda leg: st.tuples(st.just(leg), configs(leg=leg)))


def test_every_field_of_the_api_is_known() -> None:
    asked = {*SessionConfig.model_fields, *MediaSessionConfigParam.__annotations__}
    assert set(Config.__struct_fields__) == asked


@settings(max_examples=30, deadline=None)
@given(either)
def test_what_is_asked_for_is_shown_as_it_was_asked_for(case: tuple[bool, dict[str, Any]]) -> None:
    leg, asked = case
    told = shown(opened(asked, leg=leg))
    assert (told["id"], told["expires_at"], told["status"]) == ("live_1", 7, "active")
    assert (told["model"], told["store"]) == (asked["model"], False)
    instructions = asked.get("instructions") or ""
    assert told["instructions"] == (instructions if instructions.strip() else "Be brief.")
    audio = asked.get("audio", {})
    assert told["audio"]["output"]["voice"] == audio.get("output", {}).get("voice", "anna") or (
        told["audio"]["output"]["voice"] == audio["output"]["voice"].get("id")
    )
    assert told["delegation"] == (asked.get("delegation") or {"type": "client"})
    assert told.get("input", []) == asked.get("input", [])
    assert told.get("safety_identifier", "") == (asked.get("safety_identifier") or "")
    assert told.get("client") == asked.get("client")
    if leg:
        assert "format" not in told["audio"]
    else:
        kind = audio.get("format", {}).get("type", "audio/pcm")
        rate = audio.get("format", {}).get("rate", rates[kind][-1])
        assert told["audio"]["format"] == {"type": kind, "rate": rate}


@settings(max_examples=30, deadline=None)
@given(either)
def test_the_session_is_what_is_shown(case: tuple[bool, dict[str, Any]]) -> None:
    leg, asked = case
    opening = opened(asked, leg=leg)
    voice = asked.get("audio", {}).get("output", {}).get("voice", "anna")
    bruno = voice in ("cedar", {"id": "bruno"})
    assert (opening.settings.voice or "anna") == ("bruno" if bruno else "anna")
    assert opening.settings.instructions == opening.shown.instructions
    assert opening.settings.tools == (DELEGATE,)
    seeded = [message.item() for message in opening.config.input]
    roles = [item.role for item in seeded]
    assert roles == [
        message["role"].replace("developer", "system") for message in asked.get("input", [])
    ]
    assert [item.content[0].text for item in seeded] == [
        message["content"][0]["text"] for message in asked.get("input", [])
    ]


def objects(value: Any, at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in ``value``, with its path."""
    if isinstance(value, dict):
        yield at, value
        for name, inner in value.items():
            yield from objects(inner, f"{at}.{name}")
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from objects(inner, f"{at}[{number}]")


@settings(max_examples=30, deadline=None)
@given(either, st.data())
def test_a_field_that_is_not_known_is_an_error_at_every_depth(
    case: tuple[bool, dict[str, Any]], data: st.DataObject
) -> None:
    leg, asked = case
    asked = copy.deepcopy(asked)
    at, place = data.draw(st.sampled_from([*objects(asked, "session")]))
    place["instruction"] = "misspelt"
    error = refused(asked, leg=leg)
    assert (error.code, error.param) == ("unknown_parameter", f"{at}.instruction")


@settings(max_examples=30, deadline=None)
@given(either, st.data())
def test_whatever_stands_in_a_field_it_is_shown_or_named(
    case: tuple[bool, dict[str, Any]], data: st.DataObject
) -> None:
    leg, asked = case
    asked = copy.deepcopy(asked)
    at, place = data.draw(st.sampled_from([*objects(asked, "session")]))
    name = data.draw(st.sampled_from([*place] or ["type"]))
    place[name] = data.draw(st.sampled_from(STRANGE))
    named = at
    try:
        assert shown(opened(asked, leg=leg))["model"] == asked["model"]
    except RequestError as error:
        named = error.param or ""
    assert named.startswith(at), "it names the field, or the object it stands in"


RESPONSES = {"type": "responses", "responses": {"model": "gpt-5.5"}}


@pytest.mark.parametrize(
    ("asked", "leg", "param"),
    [
        ({"store": True}, False, "session.store"),
        ({"triggers": [{"type": "x"}]}, False, "session.triggers"),
        ({"idle_timeout_s": 30}, True, "session.idle_timeout_s"),
        ({"wake_policy": {"type": "speech"}}, True, "session.wake_policy"),
        ({"audio": {"format": {"type": "audio/pcm"}}}, True, "session.audio.format"),
        ({"client": {"data_channel": {}}}, False, "session.client"),
        ({"delegation": RESPONSES}, False, "session.delegation.type"),
        ({"delegation": {"type": "decisions", "decisions": {}}}, True, "session.delegation.type"),
    ],
)
def test_what_is_not_done_here_is_refused_by_its_name(
    asked: dict[str, Any], leg: bool, param: str
) -> None:
    error = refused({"model": "gpt-live-1"} | asked, leg=leg)
    assert (error.code, error.param) == ("unsupported", param)


def message(role: str = "user", **part: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"text": "hi"} | part]}


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"model": ""}, "session.model"),
        ({"model": "m" * 129}, "session.model"),
        ({"audio": {"output": {"voice": "nova"}}}, "session.audio.output.voice"),
        ({"audio": {"output": {"voice": {"id": "nova"}}}}, "session.audio.output.voice"),
        ({"audio": {"format": {"type": "audio/pcm", "rate": 8000}}}, "session.audio.format.rate"),
        ({"audio": {"format": {"type": "audio/opus"}}}, "session.audio.format.type"),
        ({"audio": {"format": {"rate": 24000}}}, "session.audio.format.type"),
        ({"instructions": "x" * 65_537}, "session.instructions"),
        ({"safety_identifier": "x" * 513}, "session.safety_identifier"),
        ({"input": [message()] * 129}, "session.input"),
        ({"input": [message(text="x" * 1024)] * 65}, "session.input"),
        ({"input": [message("system")]}, "session.input[0].role"),
        ({"input": [{"role": "user", "content": []}]}, "session.input[0].content"),
        ({"input": [message() | {"content": [{"text": "a"}] * 2}]}, "session.input[0].content"),
        ({"input": [message(), message(type="output_text")]}, "session.input[1]"),
        ({"input": [message("assistant", type="input_text")]}, "session.input[0]"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(asked: dict[str, Any], param: str) -> None:
    assert refused({"model": "gpt-live-1"} | asked).param == param


@pytest.mark.parametrize("given", [None, [], "x", 7])
def test_a_session_that_is_no_object_is_refused(given: Any) -> None:
    assert refused(given).param == "session"


def test_a_list_of_allowed_events_is_no_longer_than_the_list_of_events() -> None:
    for name, each in (("allowed_client_events", "x"), ("allowed_server_events", {"type": "x"})):
        client = {"data_channel": {name: [each] * 129}}
        error = refused({"model": "gpt-live-1", "client": client}, leg=True)
        assert error.param == f"session.client.data_channel.{name}"


@pytest.mark.parametrize(
    "info", [replace(INFO, replies="by_itself"), replace(INFO, can=Abilities(tools=True))]
)
def test_a_model_that_takes_no_text_is_given_no_history(info: EngineInfo) -> None:
    given = {"model": "gpt-live-1", "input": [message()]}
    assert refused(given, info=info).param == "session.input"
    assert opened(given | {"input": []}, info=info)


def test_a_model_that_calls_no_tools_is_given_none_to_delegate_with() -> None:
    opening = opened({"model": "gpt-live-1"}, info=replace(INFO, can=Abilities(text=True)))
    assert opening.settings.tools == ()


def test_a_data_channel_carries_what_it_may() -> None:
    free = convert({}, DataChannel)
    assert free.takes("session.close")
    assert free.gives("session.closed")
    given = {"allowed_client_events": ["a"], "allowed_server_events": [{"type": "b"}]}
    bound = convert(given, DataChannel)
    assert (bound.takes("a"), bound.takes("b")) == (True, False)
    assert (bound.gives("a"), bound.gives("b")) == (False, True)


@given(st.none() | st.integers(0, 5_000), st.none() | st.integers(0, 5_000))
def test_an_update_changes_the_delay_and_nothing_else(old: int | None, new: int | None) -> None:
    def delegation(delay: int | None) -> dict[str, Any]:
        known = {} if delay is None else {"acknowledgement_delay_ms": delay}
        return {"type": "client"} | known

    was: Delegation = convert(delegation(old), Delegation)
    now = updated(was, {"delegation": delegation(new), "triggers": []})
    assert now == (was if new is None else convert(delegation(new), Delegation))
    assert updated(was, {}) == updated(was, {"delegation": None}) == was


@pytest.mark.parametrize("name", sorted({*Config.__struct_fields__} - {"delegation", "triggers"}))
def test_what_was_settled_at_the_start_cannot_change(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        updated(Delegation(), {name: None})
    assert caught.value.code == "immutable_field_update"
    assert caught.value.param == f"session.{name}"


@pytest.mark.parametrize(
    ("given", "code", "param"),
    [
        (7, "invalid_value", "session"),
        ({"voice": "alloy"}, "unknown_parameter", "session.voice"),
        ({"triggers": [{}]}, "unsupported", "session.triggers"),
        ({"delegation": RESPONSES}, "immutable_field_update", "session.delegation.type"),
        ({"delegation": {"type": "x"}}, "invalid_value", "session.delegation.type"),
        (
            {"delegation": {"type": "client", "delay": 1}},
            "unknown_parameter",
            "session.delegation.delay",
        ),
        (
            {"delegation": {"type": "client", "acknowledgement_delay_ms": 2**70}},
            "invalid_value",
            "session.delegation.acknowledgement_delay_ms",
        ),
    ],
)
def test_an_update_that_cannot_be_is_refused_by_its_field(
    given: Any, code: str, param: str
) -> None:
    with pytest.raises(RequestError) as caught:
        updated(Delegation(), given)
    assert (caught.value.code, caught.value.param) == (code, param)
