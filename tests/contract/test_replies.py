"""Replies of an engine that is told to: each starts and ends once, bounded and in parallel."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from engine.contract import (
    Cancel,
    Commit,
    Context,
    Message,
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    Respond,
    Settings,
    Text,
    TranscriptCompleted,
)
from tests.contract.caller import MANUAL, Caller
from tests.contract.cases import ECHO, SCRIPTED, TOLD, on
from tests.contract.conftest import Call

pytestmark = [pytest.mark.asyncio(loop_scope="session")]
told = on(*TOLD)
simulated = on(ECHO, SCRIPTED)

LONG = "One two three four five six seven eight nine ten eleven twelve."


async def asked(call: Call, *, plays: bool = True) -> Caller:
    """A caller whose turn ``mine`` stands in context revision 1."""
    caller = await call(plays=plays)
    await caller.settle(Settings(id="one", turns=MANUAL))
    await caller.say(0.6)
    said = Message(role="user", parts=(Text(text="What is the capital of France?"),))
    caller.order(Commit(turn="mine"), Context(revision=1, messages=(said,)))
    await caller.until(TranscriptCompleted)
    return caller


def check_words(caller: Caller) -> None:
    """Fails unless there are words, one after the other, within the sound of reply ``r``."""
    words = caller.of(ReplyText)
    assert words
    assert all(word.start <= word.end for word in words)
    assert all(a.end <= b.start for a, b in pairwise(words))
    assert 0 <= words[0].start < words[-1].end <= len(caller.sound("r"))


@simulated
async def test_words_lie_end_to_end_over_exactly_the_sound_that_is_sent(call: Call) -> None:
    caller = await asked(call)
    caller.order(Respond(reply="r", revision=1, turn="mine"))
    ended = await caller.until(ReplyEnded)
    assert ended.reason == "completed"
    words = caller.of(ReplyText)
    assert words[0].start == 0
    assert all(a.end == b.start for a, b in pairwise(words))
    assert words[-1].end == len(caller.sound("r")) > 0


@told
async def test_a_reply_names_its_turn_and_speaks_its_words_in_order(call: Call) -> None:
    caller = await asked(call)
    caller.order(Respond(reply="r", revision=1, turn="mine"))
    ended = await caller.until(ReplyEnded)
    assert ended.reason == "completed"
    assert caller.of(ReplyStarted)[0].turn == "mine"
    check_words(caller)


@told
async def test_what_is_to_be_said_word_for_word_is(call: Call) -> None:
    caller = await asked(call)
    caller.order(Respond(reply="r", revision=1, verbatim=LONG))
    await caller.until(ReplyEnded)
    assert caller.text("r") == LONG
    check_words(caller)


@told
async def test_a_text_reply_makes_no_sound(call: Call) -> None:
    caller = await asked(call)
    caller.order(Respond(reply="r", revision=1, modality="text", verbatim=LONG))
    await caller.until(ReplyEnded)
    assert caller.text("r") == LONG
    assert not caller.of(ReplyAudio)
    assert all(word.start == word.end == 0 for word in caller.of(ReplyText))


@told
async def test_a_reply_runs_no_further_ahead_of_playout_than_stated(call: Call) -> None:
    caller = await asked(call, plays=False)
    ahead = int(caller.info.ahead * caller.info.output_rate)
    caller.order(Respond(reply="r", revision=1, verbatim=LONG))
    await caller.until(ReplyAudio)
    await asyncio.sleep(0.2)
    first = len(caller.sound("r"))
    assert 0 < first <= ahead
    caller.played("r", 4000)
    await asyncio.sleep(0.2)
    assert first < len(caller.sound("r")) <= ahead + 4000
    assert not caller.of(ReplyEnded)


@told
async def test_a_cancelled_reply_ends_at_once_and_nothing_follows(call: Call) -> None:
    caller = await asked(call, plays=False)
    caller.order(Respond(reply="r", revision=1, verbatim=LONG))
    await caller.until(ReplyAudio)
    caller.order(Cancel(reply="r"), Cancel(reply="r"), Cancel(reply="unknown"))
    ended = await caller.until(ReplyEnded)
    assert (ended.reply, ended.reason) == ("r", "cancelled")
    count = len(caller.events)
    await asyncio.sleep(0.1)
    assert len(caller.events) == count


@told
async def test_a_reply_can_be_cancelled_as_soon_as_it_was_asked_for(call: Call) -> None:
    caller = await asked(call, plays=False)
    caller.order(Respond(reply="r", revision=1, verbatim=LONG), Cancel(reply="r"))
    assert (await caller.until(ReplyEnded)).reason == "cancelled"


@told
async def test_replies_run_side_by_side(call: Call) -> None:
    caller = await asked(call, plays=False)
    other = (Message(role="user", parts=(Text(text="Something else."),)),)
    caller.order(
        Respond(reply="in", revision=1, verbatim=LONG),
        Respond(reply="out", revision=1, messages=other, modality="text"),
    )
    assert (await caller.until(ReplyEnded)).reply == "out"
    caller.plays = True
    caller.played("in", len(caller.sound("in")))
    assert (await caller.until(ReplyEnded, 2)).reply == "in"


@told
async def test_a_reply_that_runs_when_the_session_closes_is_ended(call: Call) -> None:
    caller = await asked(call, plays=False)
    caller.order(Respond(reply="r", revision=1, verbatim=LONG))
    await caller.until(ReplyAudio)
    await caller.close()
    assert [ended.reason for ended in caller.of(ReplyEnded)] == ["cancelled"]


@simulated
async def test_a_reply_is_cut_at_the_tokens_it_may_take(call: Call) -> None:
    caller = await asked(call)
    caller.order(Respond(reply="r", revision=1, verbatim=LONG, max_tokens=3))
    ended = await caller.until(ReplyEnded)
    assert (ended.reason, ended.usage.output_tokens) == ("length", 3)
    assert caller.text("r").split() == LONG.split()[:3]


@told
async def test_two_callers_do_not_meet(call: Call) -> None:
    one, two = await asked(call), await asked(call)
    one.order(Respond(reply="a", revision=1, verbatim="Good morning."))
    two.order(Respond(reply="b", revision=1, verbatim="Good night."))
    await one.until(ReplyEnded)
    await two.until(ReplyEnded)
    assert (one.text("a"), two.text("b")) == ("Good morning.", "Good night.")
    assert not one.text("b")
    assert not two.text("a")
