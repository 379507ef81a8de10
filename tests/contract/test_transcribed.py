"""A model that replies by itself, with a recogniser beside it: turns and words between its frames.

Whatever becomes of the recogniser, the model's frames come at every tick, and the session goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine import registry
from engine.contract import (
    Applied,
    Clear,
    Closed,
    Commit,
    Engine,
    EngineError,
    Fault,
    ReplyAudio,
    ReplyEnded,
    Settings,
    SpeechStarted,
    SpeechStopped,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
    TurnDropped,
    TurnEnded,
)
from engine.remote.proxy import RemoteEngine
from engine.simulated import Simulated
from engine.transcribed import SHED, Transcribed
from tests.contract.caller import MANUAL, Caller
from tests.contract.cases import CLOCKED, ECHO, TRANSCRIBED, UNCLOCKED, Case, on, sentence, tone
from tests.contract.conftest import Call, running
from tests.contract.test_life import belongings
from tests.sounds import SENTENCES, error_rate

pytestmark = [pytest.mark.asyncio(loop_scope="session")]
across = pytest.mark.parametrize("border", ["across"])

MODEL = CLOCKED.options | {"input_rate": 24_000, "tick": 1920}
LISTENING = Case(
    "listening",
    "simulated",
    MODEL | {"transcriber": {"name": "cascade"}},
    speech=sentence,
    patience=20.0,
)


def beside(**options: Any) -> dict[str, Any]:
    """A simulated recogniser with these options."""
    return {"transcriber": {"name": "simulated", "options": options}}


def model() -> Engine:
    """A simulated model in this process."""
    return registry.create("simulated", MODEL, own_process=False)


@asynccontextmanager
async def calling(engine: Engine) -> AsyncIterator[Caller]:
    """A caller of an engine that is started for it."""
    await engine.start()
    try:
        caller = Caller(await engine.open(), engine.info, TRANSCRIBED)
        await caller.settle()
        yield caller
        caller.check_replies()
    finally:
        await engine.stop()


def check_turns(caller: Caller) -> None:
    """Fails unless each turn has one end, and one transcript of all its deltas if it stands."""
    ends = [e.turn for e in caller.events if isinstance(e, TurnEnded | TurnDropped)]
    words = [e.turn for e in caller.events if isinstance(e, TranscriptCompleted | TranscriptFailed)]
    assert len(set(ends)) == len(ends)
    assert {event.turn for event in caller.of(SpeechStarted)} <= set(ends)
    assert sorted(words) == sorted(event.turn for event in caller.of(TurnEnded))
    for completed in caller.of(TranscriptCompleted):
        deltas = [e.text for e in caller.of(TranscriptDelta) if e.turn == completed.turn]
        assert "".join(deltas) == completed.text


async def ready(engine: Engine) -> None:
    """Waits until both engines take callers again."""
    async with asyncio.timeout(20.0):
        while engine.state != "ready":  # noqa: ASYNC110 - the contract has no event for it
            await asyncio.sleep(0.02)


async def frames(caller: Caller, count: int) -> None:
    """Waits for so many more frames of the model, each of one length."""
    before = len(caller.of(ReplyAudio))
    async with asyncio.timeout(20.0):
        await caller.until(ReplyAudio, before + count)
    assert len({len(event.pcm) for event in caller.of(ReplyAudio)}) == 1


@on(TRANSCRIBED)
@across
async def test_turns_and_words_come_beside_the_models_replies_and_without_onsets(
    call: Call,
) -> None:
    caller = await call()
    await caller.settle()
    await caller.pause(0.5)
    await caller.speak()
    await caller.speak()
    await caller.until(TranscriptCompleted, 2)
    await caller.until(ReplyEnded, 2)
    await caller.close()
    check_turns(caller)
    other = [event for event in caller.events if not hasattr(event, "reply")]
    kinds = [type(event) for event in other if not isinstance(event, TranscriptDelta)]
    turn = [SpeechStarted, SpeechStopped, TurnEnded, TranscriptCompleted]
    assert kinds == [Applied, *turn, *turn, Closed]
    first, second = caller.of(TurnEnded)
    assert first.start <= caller.info.input_rate // 2 < first.end <= second.start
    assert caller.info.can.transcripts


@on(TRANSCRIBED)
@across
async def test_no_transcript_comes_where_none_is_wanted(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", transcribe=False))
    await caller.speak()
    await caller.until(TurnEnded)
    await caller.close()
    assert not caller.of(TranscriptCompleted)
    assert not caller.of(TranscriptFailed)


@on(TRANSCRIBED)
@across
async def test_a_commit_is_answered_by_the_recogniser_alone(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", turns=MANUAL))
    await frames(caller, 2)
    caller.order(Commit(turn="empty"))
    await caller.until(TurnDropped)
    await caller.say(0.5)
    caller.order(Clear())
    start = caller.offered
    await caller.say(0.25)
    caller.order(Commit(turn="mine"))
    await caller.until(TranscriptCompleted)
    await caller.close()
    check_turns(caller)
    assert [(turn.turn, turn.start, turn.end) for turn in caller.of(TurnEnded)] == [
        ("mine", start, caller.offered)
    ]


@on(TRANSCRIBED)
@across
async def test_a_turn_that_is_open_at_the_end_is_dropped_before_it(call: Call) -> None:
    caller = await call()
    await caller.settle()
    await caller.say(0.4)
    await caller.until(SpeechStarted)
    closed = await caller.close()
    check_turns(caller)
    assert [event.turn for event in caller.of(TurnDropped)] == [
        event.turn for event in caller.of(SpeechStarted)
    ]
    assert not caller.of(Fault)
    assert closed.reason == "closed"


@pytest.mark.weights
async def test_what_is_said_is_recognised_on_the_models_own_positions() -> None:
    async with running(LISTENING, "across") as engine:
        caller = Caller(await engine.open(), engine.info, LISTENING)
        await caller.settle()
        await caller.pause(1.0)
        await caller.say(1.0)
        after = caller.offered
        await caller.pause(1.5)
        completed = await caller.until(TranscriptCompleted)
        await caller.close()
    rate = caller.info.input_rate
    check_turns(caller)
    assert error_rate(SENTENCES[0], completed.text) <= 0.2
    (turn,) = caller.of(TurnEnded)
    assert rate // 2 <= turn.start <= rate, "at its onset, less the prefix"
    assert after - rate // 4 <= turn.end <= after + rate, "its silence included"
    assert caller.info.languages == ("en",)


@across
async def test_a_caller_without_a_place_is_told_and_goes_on_without_words(border: str) -> None:
    async with running(CLOCKED, border, **beside(capacity=1)) as engine:
        heard = Caller(await engine.open(), engine.info, CLOCKED)
        deaf = Caller(await engine.open(), engine.info, CLOCKED)
        await heard.settle()
        await deaf.settle()
        await asyncio.gather(heard.speak(), deaf.speak())
        await heard.until(TranscriptCompleted)
        await deaf.until(ReplyEnded)
        deaf.order(Commit(turn="mine"))
        await deaf.until(TurnDropped)
        await frames(deaf, 3)
        await deaf.close()
        await heard.close()
        assert [fault.code for fault in deaf.of(Fault)] == [SHED]
        assert "every place with the transcriber is taken" in deaf.of(Fault)[0].message
        assert deaf.kinds(ReplyAudio)[:2] == ["Applied", "Fault"]
        assert not deaf.of(SpeechStarted)
        assert not heard.of(Fault)
        assert engine.figures()[SHED] == 1
        check_turns(heard)
        check_turns(deaf)


async def test_a_recogniser_that_crashes_amid_a_turn_takes_nothing_else_along() -> None:
    fault = {"kind": "crash", "after": 0.6}
    engine = registry.create(
        "simulated", CLOCKED.options | beside(faults=[fault]), own_process=True
    )
    async with calling(engine) as caller:
        await caller.say(0.8)
        assert (await caller.until(Fault)).code == SHED
        check_turns(caller)
        assert len(caller.of(SpeechStarted)) == 1
        await caller.pause(0.5)
        await caller.until(ReplyEnded)
        await ready(engine)
        await caller.speak()
        await caller.until(ReplyEnded, 2)
        assert not caller.of(Closed)
        assert len(caller.of(Fault)) == 1
        other = Caller(await engine.open(), engine.info, TRANSCRIBED)
        await other.settle()
        await other.say(0.4)
        await other.until(SpeechStarted)
        figures = engine.figures()
        assert (figures[SHED], figures["transcriber_losses"], figures["losses"]) == (1, 1, 0)
        await other.close()
        assert (await caller.close()).reason == "closed"


async def test_a_recogniser_that_stands_still_holds_up_nothing() -> None:
    stalling = {"faults": [{"kind": "stall", "after": 0.2}]}
    recogniser = RemoteEngine("simulated", stalling, watchdog=0.8)
    async with calling(Transcribed(model(), recogniser)) as caller:
        async with asyncio.timeout(20.0):
            while not caller.of(Fault):
                await caller.offer(tone(0.1, caller.info.input_rate))
        await caller.pause(0.5)
        await caller.until(ReplyEnded)
        await frames(caller, 3)
        assert (await caller.close()).heard == caller.offered
        assert [fault.code for fault in caller.of(Fault)] == [SHED]
        check_turns(caller)


async def test_a_model_that_is_lost_ends_its_turns_and_the_session() -> None:
    remote = RemoteEngine("simulated", CLOCKED.options)
    engine = Transcribed(remote, Simulated({}))
    async with calling(engine) as caller:
        await caller.say(0.4)
        await caller.until(SpeechStarted)
        assert remote.pid is not None
        os.kill(remote.pid, signal.SIGKILL)
        assert (await caller.ended(15.0)).reason == "engine_lost"
        assert [fault.code for fault in caller.of(Fault)] == ["engine_lost"]
        check_turns(caller)
        await ready(engine)


@across
async def test_sessions_leave_nothing_behind(border: str) -> None:
    async with running(TRANSCRIBED, border, capacity=20) as engine:

        async def stay() -> None:
            caller = Caller(await engine.open(), engine.info, TRANSCRIBED)
            await caller.settle()
            await caller.say(0.2)
            await caller.close()

        await stay()
        await asyncio.sleep(0.2)
        before = belongings(engine)
        for _ in range(2):
            await asyncio.gather(*(stay() for _ in range(20)))
        async with asyncio.timeout(20.0):
            while any(engine.figures()[f"{of}sessions"] for of in ("", "transcriber_")):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert belongings(engine) == before


async def test_a_recogniser_that_cannot_start_leaves_the_model_running() -> None:
    engine = registry.create("simulated", CLOCKED.options | beside(tikc=1), own_process=True)
    async with calling(engine) as caller:
        assert engine.state == "degraded"
        assert not engine.info.can.transcripts
        await caller.speak()
        await caller.until(ReplyEnded)
        assert not caller.of(Fault)
        assert not caller.of(SpeechStarted)


class Full(Simulated):
    """It never says whether it has a place."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked = asyncio.Event()

    async def open(self) -> Any:
        self.asked.set()
        await asyncio.Event().wait()


async def test_a_place_is_not_waited_for_for_long() -> None:
    async with calling(Transcribed(model(), Full())) as caller:
        assert "gave no place" in (await caller.until(Fault)).message


async def test_an_opening_that_is_given_up_takes_no_place_in_the_model() -> None:
    full = Full()
    engine = Transcribed(model(), full)
    await engine.start()
    opening = asyncio.create_task(engine.open())
    await full.asked.wait()
    opening.cancel()
    await asyncio.wait([opening])
    async with asyncio.timeout(15.0):
        while engine.figures()["sessions"]:  # noqa: ASYNC110 - the contract has no event for it
            await asyncio.sleep(0.02)
    await engine.stop()


@pytest.mark.parametrize("case", [ECHO, UNCLOCKED], ids=["told", "unclocked"])
async def test_only_a_clocked_engine_without_transcripts_is_given_any(case: Case) -> None:
    engine = registry.create(case.engine, case.options | beside(), own_process=False)
    with pytest.raises(EngineError, match="expected an engine with a clock and no transcripts"):
        await engine.start()


async def test_only_an_engine_that_transcribes_is_listened_with() -> None:
    async with calling(Transcribed(model(), model())) as caller:
        assert not caller.info.can.transcripts


async def test_sound_that_nobody_takes_is_dropped_by_the_recogniser_alone() -> None:
    recogniser = Simulated({"faults": [{"kind": "stall", "after": 0.0}], "room": 0.1})
    async with calling(Transcribed(model(), recogniser)) as caller:
        await caller.speak()
        await caller.until(ReplyEnded)
        await caller.close()
    assert recogniser.figures()["dropped_samples"] > recogniser.info.input_rate / 2
