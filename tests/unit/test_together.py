"""What sockets put off is done soon, all of it, whatever one of them does; what is to be written
first."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from functools import partial

import pytest

from server.transport.together import PATIENCE, Together


async def test_all_calls_of_a_turn_are_made_in_order_before_what_is_scheduled_behind_them() -> None:
    together, seen = Together(), list[str]()
    together.write(lambda: seen.append("first"))
    asyncio.get_running_loop().call_soon(seen.append, "behind")
    together.write(lambda: seen.append("second"))
    assert not seen
    await asyncio.sleep(0)
    assert seen == ["first", "second", "behind"]


@pytest.mark.parametrize("first", ["take", "write"])
async def test_what_is_to_be_written_goes_before_what_was_read(first: str) -> None:
    together, seen = Together(), list[str]()
    if first == "take":
        together.take(lambda: seen.append("take"))
    together.write(lambda: seen.append("write"))
    if first == "write":
        together.take(lambda: seen.append("take"))
    for number in range(5):
        await asyncio.sleep(0)
        assert "take" not in seen
        together.write(partial(seen.append, f"write {number}"))
        asyncio.get_running_loop().call_soon(seen.append, f"behind {number}")
    await asyncio.sleep(0.01)
    behind = [each for n in range(5) for each in (f"write {n}", f"behind {n}")]
    assert seen == ["write", *behind, "take"]


async def test_what_was_read_alone_is_taken_at_once() -> None:
    together, seen = Together(), list[str]()
    together.take(lambda: seen.append("take"))
    asyncio.get_running_loop().call_soon(seen.append, "behind")
    await asyncio.sleep(0)
    assert seen == ["take", "behind"]


async def test_what_was_read_waits_only_so_long_for_what_is_written_turn_by_turn() -> None:
    together, seen = Together(), list[float]()
    loop = asyncio.get_running_loop()
    began = loop.time()
    together.take(lambda: seen.append(loop.time() - began))
    while not seen:
        together.write(lambda: None)
        await asyncio.sleep(0)
    assert PATIENCE <= seen[0] < PATIENCE + 0.5


async def test_what_a_call_puts_off_is_made_in_the_next_turn() -> None:
    together, seen = Together(), list[str]()

    def call() -> None:
        seen.append("call")
        together.write(lambda: seen.append("its own"))

    together.write(call)
    await asyncio.sleep(0)
    assert seen == ["call"]
    await asyncio.sleep(0)
    assert seen == ["call", "its own"]


async def test_one_that_fails_is_told_and_keeps_nobody_else_from_its_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    together, seen = Together(), list[str]()

    def fail() -> None:
        raise ValueError("as told")

    with caplog.at_level(logging.ERROR):
        together.write(fail)
        together.write(lambda: seen.append("other"))
        await asyncio.sleep(0)
        together.write(lambda: seen.append("later"))
        await asyncio.sleep(0)
    assert seen == ["other", "later"]


async def test_nobody_is_served_in_the_context_of_another() -> None:
    session, seen = ContextVar("session", default="nobody's"), list[str]()
    together = Together()
    session.set("the first one's")
    together.write(lambda: seen.append(session.get()))
    await asyncio.sleep(0)
    assert seen == ["nobody's"]
