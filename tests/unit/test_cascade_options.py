"""Options: what is not understood is named, what is secret is not."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cascade.options import options_from
from engine.contract import EngineError


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"capcity": 3}, "capcity"),
        ({"llm": {"ulr": "http://localhost"}}, "ulr"),
        ({"capacity": "many"}, "capacity"),
        ({"capacity": 0}, "capacity: expected at least 1, got 0"),
        ({"history": 1}, "history: expected at least 2, got 1"),
        ({"tts": {"url": "http://localhost"}}, "tts.voice: expected a voice"),
    ],
)
def test_what_is_not_understood_is_named(given: dict[str, Any], told: str) -> None:
    with pytest.raises(EngineError, match=told):
        options_from(given)


def test_a_key_is_in_no_error() -> None:
    with pytest.raises(EngineError) as raised:
        options_from({"llm": {"url": "http://u", "key": "sk-secret", "timeout": "sk-secret"}})
    assert "sk-secret" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_an_endpoint_is_shown_more_of_the_conversation() -> None:
    assert options_from({}).messages == 8
    assert options_from({"llm": {"url": "http://localhost"}}).messages == 40
    assert options_from({"history": 6}).messages == 6
