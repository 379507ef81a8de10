"""Engines that reply by themselves: segments, ticks, silence between, and what they refuse."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

from engine.contract import (
    Cancel,
    Engine,
    Refused,
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    Respond,
    Settings,
)
from tests.contract.cases import CASES, CLOCKED, UNCLOCKED, on, silence, tone
from tests.contract.conftest import Call

pytestmark = [pytest.mark.asyncio(loop_scope="session")]
by_itself = on(*(case for case in CASES if not case.told))
clocked = on(CLOCKED)
unclocked = on(UNCLOCKED)


@by_itself
async def test_what_is_said_comes_back_as_a_reply_of_its_own(call: Call) -> None:
    caller = await call()
    await caller.settle()
    await caller.speak()
    await caller.speak()
    await caller.until(ReplyEnded, 2)
    replies = [event.reply for event in caller.of(ReplyStarted)]
    assert len(set(replies)) == 2
    for reply in replies:
        assert len(caller.sound(reply)) >= 0.4 * caller.info.output_rate
        assert np.abs(caller.sound(reply)).max() > 0.25


@by_itself
async def test_voice_and_instructions_cannot_change_once_it_has_begun(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", instructions="Be kind."))
    await caller.settle(Settings(id="two", instructions="Be rude."))
    await caller.settle(Settings(id="three", instructions="Be kind.", voice=caller.info.voices[1]))
    await caller.settle(Settings(id="four", instructions="Be kind."))
    assert [(refused.id, refused.param) for refused in caller.of(Refused)] == [
        ("two", "instructions"),
        ("three", "voice"),
    ]


@by_itself
async def test_a_reply_that_is_ordered_all_the_same_fails(call: Call) -> None:
    caller = await call()
    await caller.settle()
    caller.order(Respond(reply="mine", revision=0))
    ended = await caller.until(ReplyEnded)
    assert (ended.reply, ended.reason) == ("mine", "failed")


@by_itself
async def test_a_cancelled_segment_is_silent_to_its_end(call: Call) -> None:
    caller = await call()
    await caller.settle()
    await caller.offer(tone(0.3, caller.info.input_rate))
    started = await caller.until(ReplyStarted)
    caller.order(Cancel(reply=started.reply))
    await caller.speak()
    assert (await caller.until(ReplyEnded)).reason == "cancelled"
    await caller.speak()
    await caller.until(ReplyEnded, 2)
    assert len(caller.of(ReplyStarted)) == 2


@unclocked
async def test_each_piece_comes_back_at_once(call: Call) -> None:
    caller = await call()
    await caller.settle()
    piece = tone(0.02, caller.info.input_rate)
    for count in range(1, 6):
        caller.session.hear(piece)
        heard = (await caller.until(ReplyAudio, count)).pcm
        assert len(heard) == len(piece) * caller.info.output_rate // caller.info.input_rate


@unclocked
async def test_an_echo_runs_no_further_ahead_of_playout_than_stated(call: Call) -> None:
    caller = await call(plays=False)
    await caller.settle()
    await caller.offer(tone(1.5, caller.info.input_rate))
    await caller.offer(silence(0.5, caller.info.input_rate))
    await caller.until(ReplyEnded)
    sound = caller.sound(caller.of(ReplyStarted)[0].reply)
    assert 0 < len(sound) <= caller.info.ahead * caller.info.output_rate


@clocked
async def test_a_clocked_engine_makes_a_frame_of_one_length_at_every_tick(
    call: Call, engine: Engine
) -> None:
    caller = await call()
    await caller.settle()
    assert engine.info.tick is not None
    frame = engine.info.tick * engine.info.output_rate // engine.info.input_rate
    began, before = time.monotonic(), len(caller.of(ReplyAudio))
    await caller.speak()
    await asyncio.sleep(0.4)
    frames = caller.of(ReplyAudio)
    elapsed = time.monotonic() - began
    assert {len(event.pcm) for event in frames} == {frame}
    due = elapsed * engine.info.input_rate / engine.info.tick
    assert abs(len(frames) - before - due) <= 2
    assert all(not event.pcm.any() for event in frames if not event.reply)
