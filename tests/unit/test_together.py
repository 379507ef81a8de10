"""What sockets put off is done right after the turn, all of it, whatever one of them does."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar

import pytest

from server.transport.together import Together


async def test_all_calls_of_a_turn_are_made_in_order_before_what_is_scheduled_behind_them() -> None:
    together, seen = Together(), list[str]()
    together.soon(lambda: seen.append("first"))
    asyncio.get_running_loop().call_soon(seen.append, "behind")
    together.soon(lambda: seen.append("second"))
    assert not seen
    await asyncio.sleep(0)
    assert seen == ["first", "second", "behind"]


async def test_what_a_call_puts_off_is_made_in_the_next_turn() -> None:
    together, seen = Together(), list[str]()

    def call() -> None:
        seen.append("call")
        together.soon(lambda: seen.append("its own"))

    together.soon(call)
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
        together.soon(fail)
        together.soon(lambda: seen.append("other"))
        await asyncio.sleep(0)
        together.soon(lambda: seen.append("later"))
        await asyncio.sleep(0)
    assert seen == ["other", "later"]


async def test_nobody_is_served_in_the_context_of_another() -> None:
    session, seen = ContextVar("session", default="nobody's"), list[str]()
    together = Together()
    session.set("the first one's")
    together.soon(lambda: seen.append(session.get()))
    await asyncio.sleep(0)
    assert seen == ["nobody's"]
