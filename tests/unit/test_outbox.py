"""A session's events: one after the other, none from within another, and bounded."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import (
    Closed,
    Event,
    Fault,
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    TurnDropped,
)
from engine.outbox import Outbox

CLOSED = Closed(reason="closed", heard=0, dropped=0)
STEPS = st.lists(st.sampled_from(["put", "tell", "turn", "listen", "rest"]), max_size=40)


def number(event: Event) -> int:
    assert isinstance(event, TurnDropped)
    return int(event.turn)


@given(STEPS, st.sets(st.integers(0, 40)))
def test_events_come_in_order_once_and_none_from_within_another(
    steps: list[str], answered: set[int]
) -> None:
    """``answered``: events of these numbers have the listener make another one, both ways."""

    async def run() -> None:
        outbox = Outbox()
        told: list[int] = []
        made = 0
        telling = False

        def make(way: Callable[[Event], bool]) -> None:
            nonlocal made
            made += 1
            assert way(TurnDropped(turn=str(made - 1)))

        def listener(event: Event) -> None:
            nonlocal telling
            assert not telling
            telling = True
            told.append(number(event))
            if told[-1] in answered:
                make(outbox.put)
                make(outbox.tell)
            telling = False

        for step in steps:
            match step:
                case "put":
                    before = len(told)
                    make(outbox.put)
                    assert len(told) == before
                case "tell":
                    make(outbox.tell)
                case "turn":
                    await asyncio.sleep(0)
                case "listen":
                    outbox.listen(listener)
                case "rest":
                    outbox.listen(None)
        outbox.listen(listener)
        for _ in range(3):
            await asyncio.sleep(0)
        assert told == list(range(made))

    asyncio.run(run())


async def test_who_is_called_by_the_loop_has_an_event_told_at_once() -> None:
    outbox = Outbox()
    told: list[Event] = []
    outbox.listen(told.append)
    assert outbox.tell(ReplyStarted(reply="a"))
    assert len(told) == 1
    assert outbox.put(ReplyEnded(reply="a", reason="completed"))
    assert outbox.tell(ReplyStarted(reply="b"))
    assert len(told) == 1
    await asyncio.sleep(0)
    assert len(told) == 3


async def test_each_open_reply_is_ended_and_no_more_is_kept_than_the_bound() -> None:
    outbox = Outbox(limit=1200)
    assert outbox.put(ReplyStarted(reply="a"))
    assert outbox.put(ReplyStarted(reply="b"))
    assert not outbox.put(ReplyEnded(reply="a", reason="completed"))
    assert not outbox.tell(ReplyEnded(reply="a", reason="completed"))
    outbox.end(CLOSED)
    told: list[Event] = []
    outbox.listen(told.append)
    await asyncio.sleep(0)
    kinds = [(type(event), getattr(event, "reply", "")) for event in told]
    assert kinds[2:] == [(ReplyEnded, "a"), (ReplyEnded, "b"), (Closed, "")]


async def test_a_reply_that_was_told_at_once_is_ended_once_too() -> None:
    outbox = Outbox()
    told: list[Event] = []
    outbox.listen(told.append)
    outbox.tell(ReplyStarted(reply="a"))
    outbox.tell(ReplyStarted(reply="b"))
    outbox.tell(ReplyAudio(reply="b", pcm=np.zeros(4, np.int16)))
    outbox.tell(ReplyEnded(reply="a", reason="completed"))
    outbox.end(CLOSED, Fault(code="engine_failed", message=""))
    await asyncio.sleep(0)
    ends = [(event.reply, event.reason) for event in told if isinstance(event, ReplyEnded)]
    assert ends == [("a", "completed"), ("b", "failed")]


async def test_what_was_told_makes_room() -> None:
    outbox = Outbox(limit=1200)
    outbox.listen(lambda event: None)
    for _ in range(5):
        assert outbox.put(TurnDropped(turn="t"))
        assert outbox.put(TurnDropped(turn="u"))
        assert not outbox.put(TurnDropped(turn="v"))
        await asyncio.sleep(0)


async def test_the_listener_is_let_go_of_with_the_last_event() -> None:
    class Somebody:
        def listen(self, event: Event) -> None:
            """Listens."""

    outbox = Outbox()
    somebody = Somebody()
    gone = weakref.ref(somebody)
    outbox.listen(somebody.listen)
    del somebody
    outbox.end(CLOSED)
    await asyncio.sleep(0)
    gc.collect()
    assert gone() is None


async def test_a_listener_that_fails_is_told_what_follows_all_the_same() -> None:
    outbox, told = Outbox(), list[int]()

    def listener(event: Event) -> None:
        if isinstance(event, Closed):
            told.append(-1)
            return
        told.append(number(event))
        raise ValueError("as told")

    outbox.listen(listener)
    with pytest.raises(ValueError, match="as told"):
        outbox.tell(TurnDropped(turn="0"))
    outbox.end(CLOSED)
    await asyncio.sleep(0)
    assert told == [0, -1]
