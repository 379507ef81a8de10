"""The garbage collector: what a call leaves is found, however long it lasted and whatever stays."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from server import garbage

LIVE = 40
"""Calls at once."""
OBJECTS = 250
"""Of one call."""


class Call:
    """A knot of objects that nothing but the collector unties."""

    def __init__(self) -> None:
        self.parts = [[self] for _ in range(OBJECTS)]


@pytest.fixture
def spared() -> Iterator[None]:
    before = gc.get_threshold()
    stays = [[index] for index in range(400 * OBJECTS)]
    garbage.spare()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    stays.clear()


@pytest.mark.usefixtures("spared")
def test_calls_that_have_ended_never_outnumber_those_that_go_on_by_much() -> None:
    live = [Call() for _ in range(LIVE)]
    ended: list[weakref.ref[Call]] = []
    most = 0
    for number in range(2_000):
        ended.append(weakref.ref(live[number % LIVE]))
        live[number % LIVE] = Call()
        ended = [call for call in ended if call() is not None]
        most = max(most, len(ended))
    assert most < 2 * LIVE


@pytest.mark.usefixtures("spared")
def test_what_stays_is_not_looked_at() -> None:
    looked_at: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looked_at.append(len(gc.get_objects()))

    gc.callbacks.append(look)
    try:
        calls = [Call() for _ in range(LIVE)]
        gc.collect()
    finally:
        gc.callbacks.remove(look)
    assert calls and max(looked_at) < 2 * LIVE * OBJECTS
