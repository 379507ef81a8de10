"""Turns: found, judged, dropped, transcribed, committed; and nothing prepared ahead is heard."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from engine.contract import (
    Applied,
    Clear,
    Commit,
    Context,
    Message,
    Onset,
    OnsetDropped,
    ReplyAudio,
    ReplyStarted,
    ReplyText,
    Respond,
    Settings,
    SpeechStarted,
    SpeechStopped,
    TranscriptCompleted,
    TranscriptDelta,
    Turn,
    TurnDetection,
    TurnDropped,
    TurnEnded,
)
from tests.contract.caller import MANUAL
from tests.contract.cases import TOLD, on
from tests.contract.conftest import Call

pytestmark = [pytest.mark.asyncio(loop_scope="session"), on(*TOLD)]


async def test_a_turn_is_told_from_its_onset_to_its_transcript(call: Call) -> None:
    caller = await call()
    await caller.settle()
    await caller.pause(0.5)
    await caller.speak()
    await caller.until(TranscriptCompleted)
    kinds = caller.kinds(Applied, TranscriptDelta)
    assert kinds == [
        "Onset",
        "SpeechStarted",
        "SpeechStopped",
        "TurnEnded",
        "TranscriptCompleted",
    ]
    began, ended = caller.of(SpeechStarted)[0], caller.of(TurnEnded)[0]
    assert began.turn == ended.turn == caller.of(SpeechStopped)[0].turn
    half = caller.info.input_rate // 2
    assert began.at <= half <= caller.of(Onset)[0].at + caller.info.input_rate // 10
    assert ended.start < ended.end <= caller.offered


async def test_joined_deltas_are_the_transcript(call: Call) -> None:
    caller = await call()
    await caller.settle()
    await caller.speak()
    completed = await caller.until(TranscriptCompleted)
    assert "".join(delta.text for delta in caller.of(TranscriptDelta)) == completed.text
    assert completed.seconds > 0.3


async def test_every_turn_is_transcribed_once(call: Call) -> None:
    caller = await call()
    await caller.settle()
    for _ in range(3):
        await caller.speak()
    await caller.until(TranscriptCompleted, 3)
    ended = [turn.turn for turn in caller.of(TurnEnded)]
    assert [done.turn for done in caller.of(TranscriptCompleted)] == ended
    assert len(set(ended)) == 3
    spans = [(turn.start, turn.end) for turn in caller.of(TurnEnded)]
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


async def test_no_transcript_comes_where_none_is_wanted(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", transcribe=False))
    await caller.speak()
    await caller.until(TurnEnded)
    await caller.close()
    assert not caller.of(TranscriptCompleted)
    assert not caller.of(TranscriptDelta)


async def test_a_click_is_an_onset_that_is_dropped(call: Call) -> None:
    caller = await call()
    await caller.settle()
    await caller.pause(0.5)
    await caller.click()
    await caller.pause(0.5)
    await caller.close()
    assert caller.kinds(Applied) == ["Onset", "OnsetDropped", "Closed"]


async def test_the_silence_that_ends_a_turn_is_as_long_as_the_settings_say(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", turns=TurnDetection(silence_ms=600)))
    await caller.say(0.4)
    await caller.pause(0.55)
    await caller.say(0.4)
    await caller.pause(0.7)
    await caller.until(TurnEnded)
    await caller.close()
    assert len(caller.of(TurnEnded)) == 1


async def test_no_turn_is_judged_before_the_first_settings(call: Call) -> None:
    caller = await call()
    await caller.say(0.3)
    await asyncio.sleep(0.1)
    assert not caller.events
    await caller.settle()
    await caller.pause(0.8)
    assert (await caller.until(TurnEnded)).start == 0
    assert isinstance(caller.events[0], Applied)


async def test_without_settings_judging_begins_after_half_a_second(call: Call) -> None:
    caller = await call()
    await caller.speak()
    await caller.until(TurnEnded)


async def test_a_commit_takes_everything_since_the_last_turn(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", turns=MANUAL))
    await caller.say(0.5)
    caller.order(Clear())
    start = caller.offered
    await caller.say(0.25)
    caller.order(Commit(turn="mine"))
    ended = await caller.until(TurnEnded)
    assert (ended.turn, ended.start, ended.end) == ("mine", start, caller.offered)
    assert (await caller.until(TranscriptCompleted)).turn == "mine"


async def test_a_commit_of_nothing_is_a_dropped_turn(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", turns=MANUAL))
    caller.order(Commit(turn="empty"))
    assert (await caller.until(TurnDropped)).turn == "empty"
    await caller.close()
    assert not caller.of(TranscriptCompleted)


async def test_nothing_prepared_ahead_is_heard_before_it_is_asked_for(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", turns=MANUAL))
    await caller.say(0.3)
    caller.order(
        Commit(turn="mine"),
        Context(revision=1, messages=(Message(role="user", parts=(Turn(turn="mine"),)),)),
    )
    await caller.until(TranscriptCompleted)
    await asyncio.sleep(0.2)
    assert not [e for e in caller.events if isinstance(e, ReplyStarted | ReplyText | ReplyAudio)]
    caller.order(Respond(reply="asked", revision=1, turn="mine"))
    assert (await caller.until(ReplyStarted)).reply == "asked"


async def test_nothing_prepared_in_the_pause_that_ends_a_turn_is_heard(call: Call) -> None:
    caller = await call()
    await caller.settle()
    await caller.speak()
    turn = (await caller.until(TranscriptCompleted)).turn
    await asyncio.sleep(0.5)
    assert not [e for e in caller.events if isinstance(e, ReplyStarted | ReplyText | ReplyAudio)]
    caller.order(
        Context(revision=1, messages=(Message(role="user", parts=(Turn(turn=turn),)),)),
        Respond(reply="asked", revision=1, turn=turn),
    )
    assert (await caller.until(ReplyStarted)).reply == "asked"
    await caller.until(ReplyAudio)


async def test_a_commit_amid_speech_ends_what_the_detector_had_begun(call: Call) -> None:
    caller = await call()
    await caller.settle()
    await caller.say(0.4)
    began = await caller.until(SpeechStarted)
    caller.order(Commit(turn="mine"))
    await caller.until(TurnEnded)
    await caller.close()
    assert began.turn in [event.turn for event in caller.of(TurnDropped)]
    assert [event.turn for event in caller.of(TurnEnded)] == ["mine"]
    assert not caller.of(OnsetDropped)


async def test_a_commit_of_the_open_turn_ends_it_and_one_of_an_ended_turn_asks_nothing(
    call: Call,
) -> None:
    caller = await call()
    await caller.settle()
    await caller.say(0.4)
    began = await caller.until(SpeechStarted)
    caller.order(Commit(turn=began.turn), Commit(turn=began.turn))
    await caller.until(TranscriptCompleted)
    await caller.pause(0.5)
    caller.order(Commit(turn=began.turn))
    await caller.close()
    assert [event.turn for event in caller.of(TurnEnded)] == [began.turn]
    assert not caller.of(TurnDropped)
