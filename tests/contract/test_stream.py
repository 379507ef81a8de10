"""Sound and orders are one stream; positions count what was offered; whoever closes, both learn."""

from __future__ import annotations

import numpy as np
import pytest

from engine.contract import (
    Applied,
    Close,
    Closed,
    Commit,
    Engine,
    Refused,
    SessionEnded,
    Settings,
    TurnEnded,
)
from tests.contract.caller import MANUAL, Caller
from tests.contract.cases import CASES, TOLD, Case, on
from tests.contract.conftest import Call, running

pytestmark = [pytest.mark.asyncio(loop_scope="session")]
every = on(*CASES)
told = on(*TOLD)


@every
async def test_each_settings_is_answered_once_and_in_order(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one"))
    await caller.settle(Settings(id="two", voice="nobody"))
    await caller.settle(Settings(id="three"))
    await caller.close()
    answers = [event for event in caller.events if isinstance(event, Applied | Refused)]
    assert [(type(answer), answer.id) for answer in answers] == [
        (Applied, "one"),
        (Refused, "two"),
        (Applied, "three"),
    ]
    refused = caller.of(Refused)[0]
    assert refused.param == "voice"
    assert "nobody" in refused.message


@every
async def test_effective_settings_name_the_voice(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one"))
    assert caller.of(Applied)[0].effective.voice == caller.info.voices[0]


@told
async def test_an_order_acts_after_the_sound_before_it(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", turns=MANUAL))
    rate = caller.info.input_rate
    for turn, samples in (("one", rate // 2), ("two", rate // 3), ("three", 7)):
        await caller.offer(np.full(samples, 0.1, np.float32))
        caller.order(Commit(turn=turn))
    await caller.until(TurnEnded, 3)
    await caller.close()
    spans = [(turn.turn, turn.start, turn.end) for turn in caller.of(TurnEnded)]
    half, rest = rate // 2, rate // 2 + rate // 3
    assert spans == [("one", 0, half), ("two", half, rest), ("three", rest, rest + 7)]


@every
async def test_sound_beyond_the_room_pushes_out_the_oldest_and_is_counted(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", turns=MANUAL))
    room = caller.session.room
    assert 0 <= caller.session.hear(np.zeros(3 * room, np.float32)) <= room
    closed = await caller.close()
    assert closed.heard == 3 * room
    assert closed.dropped >= 2 * room
    assert closed.dropped == 2 * room or caller.info.tick


@told
async def test_positions_count_what_was_dropped(call: Call) -> None:
    caller = await call()
    await caller.settle(Settings(id="one", turns=MANUAL))
    offered = 2 * caller.session.room + 11
    caller.session.hear(np.zeros(offered, np.float32))
    caller.order(Commit(turn="all"))
    assert (await caller.until(TurnEnded)).end == offered


@every
async def test_room_comes_back_as_sound_is_taken(call: Call) -> None:
    caller = await call()
    await caller.settle()
    room = caller.session.room
    await caller.offer(np.zeros(caller.info.input_rate // 4, np.float32))
    await caller.room(room - (caller.info.tick or 0))
    assert caller.session.room <= room


@every
async def test_a_session_closed_from_outside_says_so_last_and_takes_nothing_more(
    call: Call,
) -> None:
    caller = await call()
    await caller.settle()
    samples = caller.info.input_rate // 10
    await caller.offer(np.zeros(samples, np.float32))
    closed = await caller.close()
    assert (closed.reason, closed.heard) == ("closed", samples)
    assert len(caller.of(Closed)) == 1
    with pytest.raises(SessionEnded) as hearing:
        caller.session.hear(np.zeros(10, np.float32))
    with pytest.raises(SessionEnded):
        caller.order(Close())
    assert hearing.value.closed == closed


@every
async def test_a_session_closed_from_inside_says_so_last_and_takes_nothing_more(
    case: Case, border: str
) -> None:
    async with running(case, border) as engine:
        caller = Caller(await engine.open(), engine.info, case)
        await caller.settle()
        await engine.stop()
        closed = await caller.ended()
    assert closed.reason == "closed"
    with pytest.raises(SessionEnded):
        caller.session.hear(np.zeros(10, np.float32))


@every
async def test_the_engine_tells_its_facts(case: Case, engine: Engine) -> None:
    assert engine.state == "ready"
    assert engine.info.replies == ("when_told" if case.told else "by_itself")
    assert (engine.info.tick is not None) == case.clocked
    assert all(isinstance(value, float) for value in engine.figures().values())
