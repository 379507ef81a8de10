"""The garbage collector: what a call leaves is found, however long it lasted and whatever stays."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from server import garbage
from server.garbage import Leavings

LIVE = 40
"""Calls at once."""
OBJECTS = 250
"""Of one call."""


class Call:
    """A knot of objects that nothing but the collector unties."""

    def __init__(self) -> None:
        self.parts = [[self] for _ in range(OBJECTS)]


@pytest.fixture
def leavings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Leavings]:
    monkeypatch.setattr(garbage, "_REST", 0.0)
    before = gc.get_threshold()
    stays = [[index] for index in range(400 * OBJECTS)]
    leavings = Leavings()
    leavings.spare()
    yield leavings
    gc.unfreeze()
    gc.set_threshold(*before)
    stays.clear()


@pytest.fixture
def looks() -> Iterator[list[int]]:
    """How many objects were looked at, each time that all that is old was."""
    looks: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            looks.append(len(gc.get_objects()))

    gc.callbacks.append(look)
    yield looks
    gc.callbacks.remove(look)


async def test_calls_that_have_ended_never_outnumber_those_that_go_on_by_much(
    leavings: Leavings,
) -> None:
    live = [Call() for _ in range(LIVE)]
    ended: list[weakref.ref[Call]] = []
    most = 0
    for number in range(2_000):
        ended.append(weakref.ref(live[number % LIVE]))
        live[number % LIVE] = Call()
        leavings.ended(LIVE - 1)
        await asyncio.sleep(0)
        ended = [call for call in ended if call() is not None]
        most = max(most, len(ended))
    assert most < LIVE / 2


def test_while_no_call_ends_only_what_is_new_is_looked_at(
    leavings: Leavings, looks: list[int]
) -> None:
    calls = [Call() for _ in range(10 * LIVE)]
    for _ in range(100):
        made = [[index] for index in range(3_000)]
        del made
    assert calls and not looks


async def test_what_stays_is_not_looked_at(leavings: Leavings, looks: list[int]) -> None:
    calls = [Call() for _ in range(LIVE)]
    for _ in range(LIVE):
        leavings.ended(LIVE)
        await asyncio.sleep(0)
    assert calls and looks and max(looks) < 2 * LIVE * OBJECTS


async def test_where_all_hang_up_at_once_one_look_finds_them(
    leavings: Leavings, looks: list[int]
) -> None:
    calls = [Call() for _ in range(10 * LIVE)]
    ended = [weakref.ref(call) for call in calls]
    for number in reversed(range(len(calls))):
        leavings.ended(number)
    calls.clear()
    await asyncio.sleep(0.01)
    assert len(looks) == 1
    assert not any(call() for call in ended)


def test_a_process_that_was_not_prepared_is_left_alone(looks: list[int]) -> None:
    unprepared = Leavings()
    for _ in range(1_000):
        unprepared.ended(0)
    assert not looks
