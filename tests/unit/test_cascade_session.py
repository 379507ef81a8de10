"""A caller's stay in the cascade, over stages without models: what is promised of its events."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest

from engine.cascade.reply import LOST, MISHEARD
from engine.cascade.session import CascadeSession
from engine.cascade.stages import Piece, StageError
from engine.contract import (
    Applied,
    Cancel,
    Clear,
    Close,
    Closed,
    Commit,
    Context,
    Event,
    Message,
    Onset,
    OnsetDropped,
    Order,
    Played,
    Refused,
    ReplyAudio,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    Respond,
    SessionEnded,
    Settings,
    SpeechStarted,
    SpeechStopped,
    Text,
    ToolCall,
    ToolUse,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
    Turn,
    TurnDetection,
    TurnDropped,
    TurnEnded,
)
from engine.reading import read
from engine.turns.machine import CHUNK
from tests.unit.cascade_fakes import (
    RATE,
    SPOKEN_WORD,
    VOICE_RATE,
    FakeJudge,
    FakeModel,
    FakeRecogniser,
    Fakes,
    FakeVoice,
    said,
    silence,
    speech,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

E = TypeVar("E")
SEMANTIC = TurnDetection(kind="semantic")


async def becomes(condition: Callable[[], object]) -> None:
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError


class Caller:
    """Drives one session and keeps what it tells."""

    def __init__(self, fakes: Fakes, ahead: float = 10.0) -> None:
        self.events: list[Event] = []
        self.gone = False
        self.session = CascadeSession(
            fakes.chain,
            "caller",
            minimum_silence=7 * CHUNK,
            history=8,
            ahead=ahead,
            closed=lambda session: setattr(self, "gone", True),
        )
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in read(self.session):
            self.events.append(event)

    def order(self, *orders: Order) -> None:
        for order in orders:
            self.session.order(order)

    def speak(self, words: int, pause: float = 1.2) -> None:
        self.session.hear(speech(words))
        self.session.hear(silence(pause))

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, kind: type[E], count: int = 1) -> E:
        await becomes(lambda: len(self.all(kind)) >= count)
        return self.all(kind)[count - 1]

    async def turn(self, words: int = 3) -> str:
        count = len(self.all(TurnEnded)) + 1
        self.speak(words)
        return (await self.until(TurnEnded, count)).turn

    def text(self, reply: str = "r") -> str:
        return "".join(e.text for e in self.all(ReplyText) if e.reply == reply)

    async def end(self) -> None:
        if not self._reading.done():
            self.order(Close())
        await asyncio.wait_for(self._reading, 5)


@asynccontextmanager
async def calling(
    fakes: Fakes | None = None, turns: TurnDetection = SEMANTIC, ahead: float = 10.0
) -> AsyncIterator[Caller]:
    caller = Caller(fakes or Fakes(), ahead)
    caller.order(Settings(id="s", turns=turns))
    yield caller
    await caller.end()
    assert isinstance(caller.events[-1], Closed)
    started, ended = caller.all(ReplyStarted), caller.all(ReplyEnded)
    assert sorted(e.reply for e in started) == sorted(e.reply for e in ended)


def asks(turn: str, revision: int = 1, *before: Message) -> tuple[Context, Respond]:
    message = Message(role="user", parts=(Turn(turn=turn),))
    return (
        Context(revision=revision, messages=(*before, message)),
        Respond(reply="r", revision=revision, turn=turn),
    )


async def test_a_spoken_turn_is_answered_aloud() -> None:
    async with calling() as caller:
        caller.speak(3, pause=0.2)
        await asyncio.sleep(0.05)
        turn = await caller.turn(words=0)
        caller.order(*asks(turn))
        ended = await caller.until(ReplyEnded)
        assert ended.reason == "completed"
        assert caller.text() == "Very well, thank you."
        assert sum(len(e.pcm) for e in caller.all(ReplyAudio)) == 4 * SPOKEN_WORD
        ends = [word.end for word in caller.all(ReplyText)]
        assert ends == [SPOKEN_WORD * n for n in (1, 2, 3, 4)]
        stages = {"stt", "judge", "turn", "llm_first", "tts_first", "turn_to_audio"}
        assert set(ended.timings) == stages
    order = [type(event) for event in caller.events if not isinstance(event, TranscriptDelta)]
    assert order[:6] == [
        Applied,
        Onset,
        SpeechStarted,
        SpeechStopped,
        TurnEnded,
        TranscriptCompleted,
    ]


async def test_deltas_joined_are_the_transcript() -> None:
    async with calling() as caller:
        caller.speak(10)
        completed = await caller.until(TranscriptCompleted)
        assert completed.text == "one two three four five six seven eight nine ten"
        assert "".join(delta.text for delta in caller.all(TranscriptDelta)) == completed.text


async def test_the_draft_made_in_the_pause_becomes_the_reply() -> None:
    fakes = Fakes()
    async with calling(fakes) as caller:
        turn = await caller.turn()
        await asyncio.sleep(0.02)
        assert len(fakes.model.asked) == 1
        assert not caller.all(ReplyAudio), "a draft cannot be heard"
        caller.order(*asks(turn))
        await caller.until(ReplyEnded)
        assert len(fakes.model.asked) == 1
        assert said(fakes.model.asked[0]) == ["one two three"]


async def test_a_draft_of_something_else_is_thrown_away() -> None:
    fakes = Fakes(model=FakeModel(delay=0.01))
    async with calling(fakes) as caller:
        turn = await caller.turn()
        context, respond = asks(turn, 1, Message(role="assistant", parts=(Text(text="Hm?"),)))
        caller.order(context, respond)
        await caller.until(ReplyEnded)
        assert [said(prompt) for prompt in fakes.model.asked] == [
            ["one two three"],
            ["Hm?", "one two three"],
        ]
        assert fakes.model.at_work == 0
        assert caller.text() == "Very well, thank you."


async def test_nothing_is_made_ahead_where_requests_are_billed() -> None:
    fakes = Fakes(model=FakeModel(warms=False))
    async with calling(fakes) as caller:
        await caller.turn(words=8)
        await asyncio.sleep(0.02)
        assert fakes.model.asked == fakes.model.warmed == []


async def test_nothing_is_made_ahead_where_no_reply_will_be_asked_for() -> None:
    fakes = Fakes()
    async with calling(fakes) as caller:
        caller.order(Settings(id="listens", turns=SEMANTIC, replies=False))
        await caller.turn(words=8)
        await asyncio.sleep(0.02)
        assert fakes.model.asked == fakes.model.warmed == []


async def test_speech_that_goes_on_throws_the_draft_away() -> None:
    fakes = Fakes()
    async with calling(fakes) as caller:
        caller.session.hear(speech(3))
        caller.session.hear(silence(0.1))
        await asyncio.sleep(0.05)
        assert len(fakes.model.asked) == 1
        turn = await caller.turn(words=2)
        assert len(caller.all(SpeechStarted)) == 1
        caller.order(*asks(turn))
        await caller.until(ReplyEnded)
        assert said(fakes.model.asked[-1]) == ["one two three four five"]


async def test_the_model_reads_along_without_the_last_word() -> None:
    fakes = Fakes()
    async with calling(fakes) as caller:
        for _ in range(4):
            caller.session.hear(speech(2))
            await asyncio.sleep(0.02)
        await caller.turn(words=1)
        assert said(fakes.model.warmed[0])[-1] in "one two three four"


async def test_the_model_reads_the_conversation_while_nothing_happens() -> None:
    fakes = Fakes()
    async with calling(fakes) as caller:
        greeting = Message(role="assistant", parts=(Text(text="Hello!"),))
        caller.order(Context(revision=1, messages=(greeting,)))
        await becomes(lambda: fakes.model.warmed)
        assert said(fakes.model.warmed[0]) == ["Hello!", ""]


async def test_noise_is_no_turn() -> None:
    async with calling(Fakes(recogniser=FakeRecogniser(script="..."))) as caller:
        caller.speak(2)
        dropped = await caller.until(TurnDropped)
        assert dropped.turn == caller.all(SpeechStarted)[0].turn
        assert not caller.all(TurnEnded)
        assert not caller.all(TranscriptCompleted)


async def test_a_turn_that_is_not_recognised_ends_all_the_same_and_is_answered() -> None:
    async with calling(Fakes(recogniser=FakeRecogniser(fails=True))) as caller:
        turn = await caller.turn()
        assert (await caller.until(TranscriptFailed)).turn == turn
        caller.order(*asks(turn))
        assert (await caller.until(ReplyEnded)).reason == "failed"
        assert caller.text() == MISHEARD


async def test_a_model_that_fails_amid_its_answer_is_heard_to_fail() -> None:
    answer: list[Piece | StageError] = ["I think that the answer is "]
    answer.append(StageError("llm", "no connection"))
    async with calling(Fakes(model=FakeModel(answer))) as caller:
        caller.order(*asks(await caller.turn()))
        ended = await caller.until(ReplyEnded)
        assert ended.reason == "failed"
        assert ended.message == "llm: no connection"
        assert caller.text() == f"I think that the answer {LOST}"


async def test_an_empty_answer_is_a_failure_that_is_heard() -> None:
    async with calling(Fakes(model=FakeModel([" "]))) as caller:
        caller.order(*asks(await caller.turn()))
        assert (await caller.until(ReplyEnded)).reason == "failed"
        assert caller.text() == LOST


async def test_a_voice_that_fails_ends_the_reply() -> None:
    async with calling(Fakes(voice=FakeVoice(fails=True))) as caller:
        caller.order(*asks(await caller.turn()))
        ended = await caller.until(ReplyEnded)
        assert (ended.reason, ended.message) == ("failed", "tts: the voice failed")


async def test_a_tool_call_is_told_and_not_spoken() -> None:
    call = ToolUse(call_id="c", name="look", arguments='{"at": 1}')
    async with calling(Fakes(model=FakeModel([call]))) as caller:
        caller.order(*asks(await caller.turn()))
        assert (await caller.until(ReplyEnded)).reason == "completed"
        (told,) = caller.all(ToolCall)
        assert (told.call_id, told.name, told.arguments) == ("c", "look", '{"at": 1}')
        assert not caller.all(ReplyAudio)


async def test_a_cancelled_reply_ends_at_once_in_every_stage() -> None:
    fakes = Fakes(model=FakeModel(["word " * 6] * 20, delay=0.005))
    async with calling(fakes) as caller:
        caller.order(*asks(await caller.turn()))
        await caller.until(ReplyAudio)
        caller.order(Cancel(reply="r"))
        assert (await caller.until(ReplyEnded)).reason == "cancelled"
        at = len(caller.events)
        await asyncio.sleep(0.03)
        assert caller.events[at:] == []
        assert fakes.model.at_work == 0
        caller.order(Cancel(reply="r"), Cancel(reply="unknown"))


async def test_a_reply_cancelled_before_it_began_ends_once() -> None:
    async with calling() as caller:
        context, respond = asks(await caller.turn())
        caller.order(context, respond, Cancel(reply="r"))
        assert (await caller.until(ReplyEnded)).reason == "cancelled"


async def test_a_reply_runs_a_second_ahead_of_what_was_played_and_no_more() -> None:
    fakes = Fakes(model=FakeModel(["word " * 5 + ". "] * 8))
    async with calling(fakes, ahead=1.0) as caller:
        caller.order(*asks(await caller.turn()))
        await asyncio.sleep(0.1)
        made = sum(len(e.pcm) for e in caller.all(ReplyAudio))
        assert made == VOICE_RATE
        while not caller.all(ReplyEnded):
            caller.order(Played(reply="r", samples=made))
            await asyncio.sleep(0.01)
            before, made = made, sum(len(e.pcm) for e in caller.all(ReplyAudio))
            assert made <= before + VOICE_RATE
        assert made == sum(len(text.split()) for text in fakes.voice.spoken) * SPOKEN_WORD


async def test_a_given_text_is_spoken_without_asking_a_model() -> None:
    fakes = Fakes()
    async with calling(fakes) as caller:
        caller.order(Respond(reply="r", revision=0, verbatim="Hello, this is Parley."))
        await caller.until(ReplyEnded)
        assert caller.text() == "Hello, this is Parley."
        assert fakes.model.asked == []


async def test_a_text_reply_has_no_sound_and_keeps_its_markup() -> None:
    async with calling(Fakes(model=FakeModel(["**Yes**,\n", "- no"]))) as caller:
        context, respond = asks(await caller.turn())
        caller.order(context, Respond(reply="r", revision=1, turn=respond.turn, modality="text"))
        await caller.until(ReplyEnded)
        assert caller.text() == "**Yes**,\n- no"
        assert not caller.all(ReplyAudio)


async def test_replies_out_of_band_run_beside_each_other() -> None:
    fakes = Fakes(model=FakeModel(delay=0.01))
    async with calling(fakes) as caller:
        ask = (Message(role="user", parts=(Text(text="Sum up."),)),)
        caller.order(Respond(reply="r", revision=0, verbatim="Hi."))
        caller.order(Respond(reply="o", revision=0, messages=ask, modality="text"))
        await caller.until(ReplyEnded, 2)
        assert caller.text("r") == "Hi."
        assert caller.text("o") == "Very well, thank you. "


async def test_more_replies_than_can_be_borne_fail_at_once() -> None:
    async with calling(Fakes(model=FakeModel(delay=1.0))) as caller:
        for number in range(9):
            caller.order(Respond(reply=str(number), revision=0))
        ended = await caller.until(ReplyEnded)
        assert (ended.reply, ended.reason) == ("8", "failed")


async def test_a_commit_is_a_turn_whatever_it_holds() -> None:
    async with calling(turns=TurnDetection(kind="none")) as caller:
        caller.session.hear(speech(2))
        caller.order(Commit(turn="mine"))
        caller.order(*asks("mine"))
        completed = await caller.until(TranscriptCompleted)
        assert (completed.turn, completed.text) == ("mine", "one two")
        await caller.until(ReplyEnded)
        caller.session.hear(silence(0.5))
        caller.order(Commit(turn="quiet"))
        assert (await caller.until(TranscriptCompleted, 2)).text == ""
        first, second = caller.all(TurnEnded)
        assert (first.start, first.end) == (0, len(speech(2)))
        assert (second.start, second.end) == (first.end, first.end + RATE // 2)
        caller.order(Commit(turn="empty"))
        assert (await caller.until(TurnDropped)).turn == "empty"
    assert not caller.all(SpeechStarted)


async def test_a_commit_amid_a_turn_takes_its_place() -> None:
    async with calling() as caller:
        caller.session.hear(speech(3))
        caller.order(Commit(turn="mine"))
        completed = await caller.until(TranscriptCompleted)
        assert completed.text == "one two three"
        found = caller.all(SpeechStarted)[0].turn
        assert [e.turn for e in caller.all(TurnDropped)] == [found]
        assert [e.turn for e in caller.all(TurnEnded)] == ["mine"]


async def test_a_commit_of_the_open_turn_goes_on_where_its_words_were() -> None:
    async with calling() as caller:
        for _ in range(4):
            caller.session.hear(speech(4))
            await asyncio.sleep(0.02)
        given = caller.all(TranscriptDelta)
        assert given
        caller.order(Commit(turn=given[0].turn))
        completed = await caller.until(TranscriptCompleted)
        assert "".join(delta.text for delta in caller.all(TranscriptDelta)) == completed.text
        assert completed.text.endswith(" ten")


async def test_cleared_sound_is_in_no_turn() -> None:
    async with calling(turns=TurnDetection(kind="none")) as caller:
        caller.session.hear(speech(5))
        caller.order(Clear())
        caller.session.hear(speech(2))
        caller.order(Commit(turn="mine"))
        assert (await caller.until(TranscriptCompleted)).text == "one two"


async def test_a_late_transcript_belongs_to_its_own_turn() -> None:
    fakes = Fakes(recogniser=FakeRecogniser(delay=0.15))
    async with calling(fakes, TurnDetection(kind="server", silence_ms=200)) as caller:
        caller.speak(2, pause=0.4)
        caller.speak(4, pause=0.4)
        await caller.until(TranscriptCompleted, 2)
        turns = [e.turn for e in caller.all(SpeechStarted)]
        assert [e.turn for e in caller.all(TurnEnded)] == turns
        texts = {e.turn: e.text for e in caller.all(TranscriptCompleted)}
        assert texts == {turns[0]: "one two", turns[1]: "one two three four"}


async def test_transcripts_are_not_told_where_they_are_off() -> None:
    async with calling() as caller:
        caller.order(Settings(id="off", transcribe=False))
        await caller.until(Applied, 2)
        turn = await caller.turn()
        caller.order(*asks(turn))
        await caller.until(ReplyEnded)
        assert not caller.all(TranscriptCompleted)
        assert not caller.all(TranscriptDelta)


async def test_a_microphone_that_vanishes_ends_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cascade.session._NO_SOUND", 0.05)
    async with calling() as caller:
        caller.session.hear(speech(4))
        await caller.until(TurnEnded)


async def test_a_click_holds_the_reply_and_lets_it_go() -> None:
    async with calling() as caller:
        caller.session.hear(speech(1)[: CHUNK * 2])
        caller.session.hear(silence(1))
        await caller.until(OnsetDropped)
        assert not caller.all(SpeechStarted)


async def test_no_turn_is_judged_before_the_first_settings() -> None:
    caller = Caller(Fakes())
    caller.speak(3, pause=0.4)
    await asyncio.sleep(0.05)
    assert caller.events == []
    caller.order(Settings(id="s", turns=TurnDetection(kind="none")))
    await caller.until(Applied)
    await caller.end()
    assert not caller.all(Onset)


async def test_a_caller_without_settings_is_heard_after_half_a_second() -> None:
    caller = Caller(Fakes())
    caller.speak(3)
    await asyncio.sleep(0.3)
    assert caller.events == []
    await caller.until(TurnEnded)
    await caller.end()


async def test_settings_are_answered_once_each() -> None:
    async with calling() as caller:
        caller.order(Settings(id="a", voice="ben"), Settings(id="b", voice="nobody"))
        refused = await caller.until(Refused)
        assert (refused.id, refused.param) == ("b", "voice")
        first, second = caller.all(Applied)
        assert (first.effective.voice, second.effective.voice) == ("anna", "ben")
        assert second.effective.turns == SEMANTIC, "what is not said holds on"


async def test_sound_beyond_the_room_is_dropped_and_counted() -> None:
    caller = Caller(Fakes())
    for _ in range(15):
        caller.session.hear(silence(1))
    assert caller.session.room == 0
    await caller.end()
    closed = caller.all(Closed)[0]
    assert (closed.heard, closed.dropped) == (15 * RATE, 5 * RATE)


async def test_a_session_that_ended_says_so() -> None:
    async with calling() as caller:
        turn = await caller.turn()
        caller.order(*asks(turn), Commit(turn="late"), Close())
        closed = await caller.until(Closed)
        assert closed.reason == "closed"
        assert caller.gone
        with pytest.raises(SessionEnded):
            caller.session.hear(silence(0.1))
        with pytest.raises(SessionEnded):
            caller.order(Clear())
        ended = [e.turn for e in caller.all(TurnEnded)]
        told = [e.turn for e in caller.all(TranscriptCompleted)]
        told += [e.turn for e in caller.all(TranscriptFailed)]
        assert sorted(ended) == sorted(told)


async def test_a_session_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    async with calling(Fakes(model=FakeModel(delay=0.01))) as caller:
        turn = await caller.turn()
        caller.order(*asks(turn), Respond(reply="o", revision=1))
        await caller.until(ReplyAudio)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_words_that_end_a_sentence_end_the_turn_whatever_its_melody() -> None:
    fakes = Fakes(judge=FakeJudge(0.0), model=FakeModel(ending=0.9))
    async with calling(fakes) as caller:
        caller.speak(4, pause=0.5)
        await caller.until(TurnEnded)


async def test_words_that_leave_a_sentence_open_are_waited_for_whatever_its_melody() -> None:
    fakes = Fakes(judge=FakeJudge(1.0), model=FakeModel(ending=0.01))
    async with calling(fakes) as caller:
        caller.speak(4, pause=0.6)
        await becomes(lambda: fakes.model.asked)
        assert caller.all(TurnEnded) == []
        caller.session.hear(silence(0.3))
        await caller.until(TurnEnded)
