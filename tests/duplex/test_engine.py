"""The engine keeps its contract with a model, here and across the border, and faults stay apart.

The model is tiny and random, so that what it says is noise: structure, timing and endings count.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch

from engine import registry
from engine.contract import (
    Applied,
    Cancel,
    Closed,
    Engine,
    EngineError,
    Fault,
    Refused,
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    Settings,
)
from engine.duplex import session
from engine.duplex.slots import Slots
from engine.outbox import Outbox
from engine.reading import read
from tests.contract import test_by_itself, test_life, test_stream
from tests.contract.caller import Caller
from tests.contract.cases import Case
from tests.contract.conftest import Call, running
from tests.duplex.tiny import BIG_BOOKS, PERSONA, SHAPE, with_words

pytestmark = [pytest.mark.asyncio(loop_scope="session")]

TICK_MS = 100.0
QUICK = {"device": "cpu", "dtype": "float32", "slots": 3, "entries": "float32", "tick_ms": TICK_MS}


@dataclass(frozen=True, slots=True)
class Random(Case):
    """A random model in a folder."""

    @property
    def told(self) -> bool:
        """See ``Case``."""
        return False

    @property
    def clocked(self) -> bool:
        """See ``Case``."""
        return True


@pytest.fixture(scope="session")
def moshi(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = with_words(tmp_path_factory.mktemp("moshi"), SHAPE)
    return Random("moshi", "duplex", {**QUICK, "model": str(folder)}, patience=15.0)


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """PersonaPlex with two voices."""
    folder = tmp_path_factory.mktemp("persona")
    with_words(folder, PERSONA, BIG_BOOKS, model_type="personaplex")
    (folder / "voices").mkdir()
    span = max(PERSONA.delays) + 3
    for name, frames in (("NATF0", 5), ("VARM1", 3)):
        heard = torch.randn(frames, 1, 1, PERSONA.dim)
        cache = torch.full((1, PERSONA.rows, span), 7)
        torch.save({"embeddings": heard, "cache": cache}, folder / f"voices/{name}.pt")
    return Random("persona", "duplex", {**QUICK, "model": str(folder)}, patience=15.0)


def here(test: Any) -> Any:
    """A test of the contract without the engines that it is tried on elsewhere."""
    return FunctionType(test.__code__, test.__globals__, test.__name__)


test_each_settings_is_answered = here(test_stream.test_each_settings_is_answered_once_and_in_order)
test_effective_settings = here(test_stream.test_effective_settings_name_the_voice)
test_sound_beyond_the_room = here(
    test_stream.test_sound_beyond_the_room_pushes_out_the_oldest_and_is_counted
)
test_room_comes_back = here(test_stream.test_room_comes_back_as_sound_is_taken)
test_closed_from_outside = here(
    test_stream.test_a_session_closed_from_outside_says_so_last_and_takes_nothing_more
)
test_closed_from_inside = here(
    test_stream.test_a_session_closed_from_inside_says_so_last_and_takes_nothing_more
)
test_facts = here(test_stream.test_the_engine_tells_its_facts)
test_voice_and_instructions = here(
    test_by_itself.test_voice_and_instructions_cannot_change_once_it_has_begun
)
test_ordered_reply = here(test_by_itself.test_a_reply_that_is_ordered_all_the_same_fails)
test_full_engine = here(test_life.test_a_full_engine_is_busy_until_a_place_is_free)
test_first_event = here(test_life.test_the_first_event_is_the_answer_to_the_first_settings)


async def test_a_caller_is_sent_a_frame_at_every_tick_and_the_model_talks(
    call: Call, engine: Engine
) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", instructions="you are a wise teacher"))
    await caller.until(ReplyStarted)
    began, before = time.monotonic(), len(caller.of(ReplyAudio))
    await caller.say(1.0)
    frames = caller.of(ReplyAudio)
    due = (time.monotonic() - began) * 1000 / TICK_MS
    assert {len(event.pcm) for event in frames} == {engine.info.tick}
    assert abs(len(frames) - before - due) <= 3
    assert all(not event.pcm.any() for event in frames if not event.reply)
    said = caller.of(ReplyText)
    assert said and all(event.end - event.start == engine.info.tick for event in said)


async def test_a_cancelled_reply_ends_and_is_not_heard_while_the_model_talks_on(
    call: Call,
) -> None:
    caller = await call()
    await caller.settle()
    started = await caller.until(ReplyStarted)
    caller.order(Cancel(reply=started.reply))
    assert (await caller.until(ReplyEnded)).reason == "cancelled"
    before = len(caller.of(ReplyAudio))
    await caller.until(ReplyAudio, before + 5)
    assert not any(event.reply for event in caller.of(ReplyAudio)[before:])
    assert len(caller.of(ReplyStarted)) == 1


async def settled(engine: Engine, case: Case, count: int) -> list[Caller]:
    callers = [Caller(await engine.open(), engine.info, case) for _ in range(count)]
    for caller in callers:
        await caller.settle()
    return callers


def frames(caller: Caller) -> int:
    return len(caller.of(ReplyAudio))


def ticks(engine: Engine) -> float:
    """Ticks so far, those skipped too."""
    figures = engine.figures()
    return figures["ticks"] + figures["ticks_skipped"]


async def test_moshi_takes_no_role_and_says_so(moshi: Case) -> None:
    async with running(moshi, "direct") as engine:
        (caller,) = await settled(engine, moshi, 1)
        caller.order(Settings(id="two", instructions="Be rude."))
        assert (await caller.until(Refused)).param == "instructions"
        again = Caller(await engine.open(), engine.info, moshi)
        await again.settle(Settings(id="one", instructions="Be kind."))
        assert again.of(Applied)[0].effective.instructions == ""
        await again.until(ReplyText)
        for one in (caller, again):
            await one.close()
            one.check_replies()


async def test_a_role_too_long_is_refused_by_name_and_a_shorter_one_is_taken(
    call: Call,
) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", instructions="teacher " * 2000))
    refused = caller.of(Refused)[0]
    assert refused.param == "instructions" and "expected at most 1024 tokens" in refused.message
    await caller.settle(Settings(id="two", instructions="you are wise"))
    assert caller.of(Applied)


async def test_numbers_that_break_end_their_session_and_no_other(
    moshi: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: Callable[..., None] = Slots.tick

    def tick(slots: Slots, run: Any) -> None:
        slots.pcm[slots.pcm[:, 0] == -1.0] = np.nan
        whole(slots, run)

    monkeypatch.setattr(Slots, "tick", tick)
    async with running(moshi, "direct") as engine:
        one, broken, other = await settled(engine, moshi, 3)
        size = engine.info.tick or 0
        before = [frames(caller) - ticks(engine) for caller in (one, other)]
        broken.session.hear(np.full(3 * size, -32768, np.int16))
        closed = await broken.ended(15.0)
        assert closed.reason == "engine_failed"
        assert [fault.code for fault in broken.of(Fault)] == ["engine_nan"]
        assert all(np.isfinite(event.pcm).all() for event in broken.of(ReplyAudio))
        (after,) = await settled(engine, moshi, 1)
        await after.until(ReplyAudio, 5)
        for caller, told in zip((one, other), before, strict=True):
            assert abs(frames(caller) - ticks(engine) - told) <= 2
            assert not caller.of(Closed)
        for caller in (one, other, after):
            await caller.close()
        for caller in (one, broken, other, after):
            caller.check_replies()


async def test_a_tick_that_raises_ends_all_sessions_and_the_engine_comes_back(
    moshi: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = asyncio.Event()
    whole: Callable[..., None] = Slots.tick

    def tick(slots: Slots, run: Any) -> None:
        whole(slots, run)
        if run.any() and broken.is_set():
            broken.clear()
            raise RuntimeError("device lost")

    monkeypatch.setattr(Slots, "tick", tick)
    async with running(moshi, "direct") as engine:
        callers = await settled(engine, moshi, 2)
        broken.set()
        for caller in callers:
            assert (await caller.ended(15.0)).reason == "engine_failed"
            assert [fault.code for fault in caller.of(Fault)] == ["engine_failed"]
            caller.check_replies()
        async with asyncio.timeout(15):
            while engine.state != "ready":  # noqa: ASYNC110 - the contract has no event for it
                await asyncio.sleep(0.02)
        (again,) = await settled(engine, moshi, 1)
        await again.until(ReplyText)
        await again.close()
        assert engine.figures()["restarts"] == 1


async def test_a_slow_tick_leaves_no_gap_in_anybodys_stream(
    moshi: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = asyncio.Event()
    whole: Callable[..., None] = Slots.tick

    def tick(slots: Slots, run: Any) -> None:
        if run.any() and slow.is_set():
            slow.clear()
            time.sleep(5.5 * TICK_MS / 1000)
        whole(slots, run)

    monkeypatch.setattr(Slots, "tick", tick)
    async with running(moshi, "direct") as engine:
        callers = await settled(engine, moshi, 2)
        before = [frames(caller) for caller in callers]
        slow.set()
        while engine.figures()["ticks_skipped"] < 4:  # noqa: ASYNC110 - figures have no event
            await asyncio.sleep(0.02)
        await asyncio.sleep(3 * TICK_MS / 1000)
        counts = [frames(caller) - old for caller, old in zip(callers, before, strict=True)]
        assert min(counts) >= 6 and max(counts) - min(counts) <= 1
        for caller in callers:
            await caller.close()


async def test_whoever_does_not_read_is_ended_and_whoever_floods_loses_its_own(
    moshi: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(moshi, "direct") as engine:
        (neighbour,) = await settled(engine, moshi, 1)
        monkeypatch.setattr(session, "Outbox", partial(Outbox, 10_000))
        unread = await engine.open()
        unread.order(Settings(id="one"))
        monkeypatch.undo()
        (flooding,) = await settled(engine, moshi, 1)
        before = frames(neighbour) - ticks(engine)
        room = flooding.session.room
        for _ in range(30):
            flooding.session.hear(np.zeros(50 * room, np.float32))
            await asyncio.sleep(TICK_MS / 1000)
        closed = await flooding.close()
        assert closed.heard == 1500 * room and closed.dropped >= 1400 * room
        codes = [event.code async for event in read(unread) if isinstance(event, Fault)]
        assert codes == ["events_unread"]
        assert abs(frames(neighbour) - ticks(engine) - before) <= 2
        await neighbour.close()
        neighbour.check_replies()


async def test_the_longest_session_ends_after_its_frames(moshi: Case) -> None:
    async with running(moshi, "direct", longest_session=0.8) as engine:
        (caller,) = await settled(engine, moshi, 1)
        assert (await caller.ended(15.0)).reason == "too_long"
        assert frames(caller) >= 10
        caller.check_replies()


async def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    engine = registry.create("duplex", {**QUICK, "model": str(tmp_path)}, own_process=False)
    with pytest.raises(EngineError, match=r"expected a file .*safetensors"):
        await engine.start()


async def test_bad_options_are_refused_by_name() -> None:
    with pytest.raises(EngineError, match="slots: expected more than 0, got 0"):
        registry.create("duplex", {"model": "x", "slots": 0}, own_process=False)
    with pytest.raises(EngineError, match="unknown field `tikc`"):
        registry.create("duplex", {"model": "x", "tikc": 1}, own_process=False)
