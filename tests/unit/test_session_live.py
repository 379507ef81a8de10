"""What a live session promises besides: one stream each way, mute, notes, and texts to be said."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine import contract
from engine.audio.pcm import floats
from engine.contract import Abilities, EngineInfo, Samples, Sound
from server import happenings as happen
from server.conversation import Content, Item
from server.items import MAX_ITEMS
from server.owed import MOST
from server.requests import RequestError
from tests.unit.test_session import INFO, INFO_BY_ITSELF, RATE, Harness, play, scenes

FRAME = 480


class Live(Harness):
    """A live session: its stream never stops, and everything the engine heard is kept."""

    def __init__(self, info: EngineInfo = INFO) -> None:
        super().__init__(live=True, info=info)
        self.heard: list[Samples] = []
        self.engine.hear = self._hear  # type: ignore[method-assign]
        self.settle()
        self.told.clear()

    def _hear(self, pcm: Sound) -> int:
        self.heard.append(floats(pcm))
        return 16_000

    def verbatim(self) -> list[str | None]:
        """What each reply was told to say word for word."""
        return [o.verbatim for o in self.engine.orders if isinstance(o, contract.Respond)]

    def finish(self) -> None:
        """The newest reply is made, whole."""
        self.event(contract.ReplyEnded(self.last(contract.Respond).reply, "completed"))


def test_a_muted_caller_is_silent_to_the_engine_alone_and_time_goes_on() -> None:
    talk, loud = Live(), np.full(160, 0.5, np.float32)
    for muted in (False, True, False):
        talk.session.muted = muted
        talk.session.hear(loud)
    told = [happening.pcm for happening in talk.tells(happen.Heard)]
    assert [len(pcm) for pcm in talk.heard] == [160, 160, 160]
    assert [bool(pcm.any()) for pcm in talk.heard] == [True, False, True]
    assert all(pcm.all() for pcm in told), "a sideband hears the caller before muting (live's SDK)"
    assert talk.session.heard.end == 480


def test_only_a_live_session_tells_its_sound() -> None:
    talk = Harness()
    talk.settle()
    talk.turn()
    talk.speak()
    talk.session.hear(np.zeros(160, np.float32))
    talk.pass_time(0.3)
    assert not talk.tells(happen.Heard)
    assert not talk.tells(happen.Sounded)


def test_what_nobody_asks_for_of_a_callers_sound_is_not_told_and_is_heard() -> None:
    talk, piece = Live(), np.full(160, 0.5, np.float32)
    for wanted in (False, True, False):
        talk.session.tells_heard = wanted
        talk.session.hear(piece)
    assert len(talk.tells(happen.Heard)) == 1
    assert len(talk.heard) == 3


def test_the_stream_tells_every_sample_and_whose_it_is() -> None:
    talk = Live()
    talk.pass_time(0.1)
    talk.turn()
    reply = talk.speak(words=4, seconds=0.1)
    talk.finish()
    talk.pass_time(1)
    frames = talk.tells(happen.Sounded)
    assert sum(len(frame.pcm) + frame.lost for frame in frames) == pytest.approx(
        1.1 * RATE, abs=480
    )
    ends = [frame.end for frame in frames if frame.reply == reply]
    assert ends == [FRAME * (number + 1) for number in range(20)]
    silence = [frame.pcm for frame in frames if frame.reply is None]
    assert not np.concatenate(silence).any()


def test_a_text_is_spoken_word_for_word_at_once_where_nobody_speaks() -> None:
    talk = Live()
    talk.session.say("It is sunny.")
    assert talk.verbatim() == ["It is sunny."]


def test_texts_wait_for_the_reply_and_for_each_other() -> None:
    talk = Live()
    talk.turn()
    for text in ("one", "two"):
        talk.session.say(text)
    assert talk.verbatim() == [None]
    talk.finish()
    assert talk.verbatim() == [None, "one"]
    talk.finish()
    talk.finish()
    assert talk.verbatim() == [None, "one", "two"]


def test_a_text_waits_for_the_caller_and_behind_the_answer() -> None:
    talk = Live()
    talk.event(contract.SpeechStarted("t1", 0))
    talk.session.say("By the way.")
    assert talk.verbatim() == []
    talk.event(contract.SpeechStopped("t1", 16000), contract.TurnEnded("t1", 0, 16000))
    assert talk.verbatim() == [None], "the answer comes first"
    talk.finish()
    assert talk.verbatim() == [None, "By the way."]


def test_a_text_is_said_where_the_caller_turns_out_to_be_noise() -> None:
    talk = Live()
    talk.event(contract.SpeechStarted("t1", 0))
    talk.session.say("Hello?")
    talk.event(contract.SpeechStopped("t1", 9), contract.TurnDropped("t1"))
    assert talk.verbatim() == ["Hello?"]


def test_no_more_texts_wait_than_there_is_room_for() -> None:
    talk = Live()
    talk.turn()
    for number in range(MOST):
        talk.session.say(str(number))
    with pytest.raises(RequestError) as refused:
        talk.session.say("one more")
    assert (refused.value.code, refused.value.param) == ("too_many_appends", "content")


def test_a_note_is_known_to_the_next_reply_and_asks_for_none() -> None:
    talk = Live()
    talk.session.items.note("The caller is called Ada.")
    assert talk.verbatim() == []
    assert talk.last(contract.Context).messages == (
        contract.Message(role="system", parts=(contract.Text("The caller is called Ada."),)),
    )


@pytest.mark.parametrize("info", [INFO_BY_ITSELF, replace(INFO, can=Abilities(tools=True))])
def test_a_model_that_takes_no_text_is_told_nothing(info: EngineInfo) -> None:
    talk = Live(info)
    for tell in (talk.session.say, talk.session.items.note):
        with pytest.raises(RequestError) as refused:
            tell("Psst.")
        assert refused.value.code == "unsupported"
    assert not talk.tells(happen.ItemAdded)


def test_behind_its_end_a_session_tells_nothing_of_sound() -> None:
    talk = Live()
    talk.turn()
    talk.speak()
    talk.pass_time(0.1)
    talk.session.close("close_requested")
    talk.session.hear(np.zeros(160, np.float32))
    talk.pass_time(0.3)
    assert talk.kinds()[-1] == "Ended"


live = scenes().map(lambda steps: [step for step in steps if step not in ("cancel", "clear")])
"""No Live client can stop a reply."""


@given(st.lists(st.just(["say"]) | live, max_size=6), st.booleans())
@settings(max_examples=60, deadline=None)
def test_whatever_happens_texts_are_said_once_in_order_and_the_end_comes_last(
    parts: list[list[str]], finishes: bool
) -> None:
    talk = Live()
    asked: list[str] = []
    for number, scene in enumerate(scene for part in parts for scene in part):
        try:
            if scene == "say":
                talk.session.say(f"text {number}")
                asked.append(f"text {number}")
            else:
                play(talk, scene, number)
        except RequestError:
            continue
    while finishes and talk.tells(happen.ReplyStarted)[len(talk.tells(happen.ReplyEnded)) :]:
        talk.finish()
    talk.session.close("close_requested")
    talk.pass_time(0.1)
    said = [text for text in talk.verbatim() if text in asked]
    assert said == asked[: len(said)]
    if finishes:
        assert said == asked
    assert talk.kinds().count("Ended") == 1
    assert talk.kinds()[-1] == "Ended"


def test_the_conversation_of_a_model_that_finds_no_turns_is_bounded() -> None:
    talk = Harness(info=INFO_BY_ITSELF)
    talk.settle()
    for number in range(MAX_ITEMS + 10):
        name = f"own{number}"
        talk.event(
            contract.ReplyStarted(name),
            contract.ReplyText(name, "word", 0, 100),
            contract.ReplyEnded(name, "completed"),
        )
    assert len(talk.session.conversation) == MAX_ITEMS


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
def test_a_model_that_takes_no_text_is_given_no_message_that_it_would_not_learn_of(
    role: Literal["user", "system", "assistant"],
) -> None:
    talk = Harness(info=replace(INFO_BY_ITSELF, can=Abilities()))
    item = Item(id="i", role=role, content=(Content(kind="text", text="Be brief."),))
    with pytest.raises(RequestError, match="takes no text"):
        talk.session.items.create(item)
