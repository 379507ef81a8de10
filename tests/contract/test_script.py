"""What a simulated engine does by script, on both sides of the border."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from engine.contract import (
    ReplyAudio,
    ReplyEnded,
    Respond,
    ToolCall,
    TranscriptFailed,
    TurnDropped,
    TurnEnded,
)
from tests.contract.caller import Caller
from tests.contract.cases import CLOCKED, SCRIPTED
from tests.contract.conftest import running

pytestmark = [pytest.mark.asyncio(loop_scope="session")]


async def test_noise_is_a_dropped_turn_and_an_unclear_one_has_a_failed_transcript(
    border: str,
) -> None:
    async with running(SCRIPTED, border, transcripts=["", None]) as engine:
        caller = Caller(await engine.open(), engine.info)
        await caller.settle()
        await caller.speak()
        await caller.speak()
        failed = await caller.until(TranscriptFailed)
        await caller.close()
    assert [dropped.turn for dropped in caller.of(TurnDropped)] == ["turn_1"]
    assert [ended.turn for ended in caller.of(TurnEnded)] == [failed.turn] == ["turn_2"]


async def test_a_scripted_reply_calls_its_tools_unless_it_may_not(border: str) -> None:
    async with running(SCRIPTED, border) as engine:
        caller = Caller(await engine.open(), engine.info)
        await caller.settle()
        for number, choice in enumerate(("auto", "auto", "auto", "none")):
            caller.order(Respond(reply=f"r{number}", revision=0, tool_choice=choice))
            await caller.until(ReplyEnded, number + 1)
        await caller.close()
    calls = caller.of(ToolCall)
    assert [(call.reply, call.name) for call in calls] == [("r1", "look_up")]
    assert json.loads(calls[0].arguments) == {"city": "Ghent"}


async def test_a_skipped_tick_makes_its_length_of_silence(border: str) -> None:
    slow = {"kind": "slow", "after": 0.2, "seconds": 0.5}
    async with running(CLOCKED, border, faults=[slow]) as engine:
        caller = Caller(await engine.open(), engine.info)
        await caller.settle()
        began = time.monotonic()
        await caller.speak()
        await asyncio.sleep(0.3)
        elapsed = time.monotonic() - began
        made = sum(len(event.pcm) for event in caller.of(ReplyAudio))
        await caller.close()
    assert abs(made / engine.info.output_rate - elapsed) < 0.25
