"""What a session promises: the floor changes hands in order, and nothing is said or lost twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine import contract
from engine.contract import Abilities, EngineInfo
from server import happenings as happen
from server.conversation import Content, Item
from server.happenings import Happening
from server.playout import SECOND, Paced
from server.requests import ReplyRequest, RequestError, SessionSettings
from server.session import Session
from server.unpaced import HandedOver

T = TypeVar("T")
RATE = 24000
INFO = EngineInfo(
    name="test",
    input_rate=16000,
    output_rate=RATE,
    can=Abilities(text=True, tools=True, transcripts=True),
)

INFO_BY_ITSELF = replace(INFO, replies="by_itself")


class Engine:
    """A place in an engine that does nothing but take down its orders."""

    def __init__(self) -> None:
        self.orders: list[contract.Order] = []
        self.room = 16000

    def hear(self, pcm: contract.Sound) -> int:
        return self.room

    def order(self, order: contract.Order) -> None:
        self.orders.append(order)

    def listen(self, told: Callable[[contract.Event], None]) -> None:
        pass


class Harness:
    """A session with its engine, its playout and what it told."""

    def __init__(
        self,
        *,
        paced: bool = True,
        greeting: str = "",
        live: bool = False,
        info: EngineInfo = INFO,
        **wanted: Any,
    ) -> None:
        self.engine = Engine()
        self.told: list[Happening] = []
        self.now = 0
        self.playout: Paced | HandedOver = (
            Paced(RATE, 480, fill=live) if paced else HandedOver(RATE)
        )
        self.session = Session(
            "sess_test",
            self.engine,
            info,
            self.playout,
            self.told.append,
            SessionSettings(**wanted),
            greeting=greeting,
            live=live,
        )

    def settle(self) -> None:
        self.session.update("first", self.session.settings)
        order = self.last(contract.Settings)
        self.event(contract.Applied(order.id, order))

    def event(self, *events: contract.Event) -> None:
        for event in events:
            self.session.tick(self.now)
            self.session.on_event(event)

    def pass_time(self, seconds: float) -> list[np.ndarray]:
        """Plays what is due; returns the frames."""
        frames, end = [], self.now + round(seconds * SECOND)
        while self.now < end:
            if isinstance(self.playout, Paced):
                self.playout.wake(self.now)
                if (taken := self.playout.take(self.now)) is not None:
                    frames.append(taken.pcm)
                    self.session.on_taken(taken)
            self.now += 5_000_000
            self.session.tick(self.now)
        return frames

    def turn(self, name: str = "t1") -> None:
        self.event(
            contract.Onset(0),
            contract.SpeechStarted(name, 0),
            contract.SpeechStopped(name, 16000),
            contract.TurnEnded(name, 0, 16000),
        )

    def speak(self, words: int = 10, seconds: float = 0.1) -> str:
        """The engine speaks ``words`` of ``seconds`` each in the last reply asked for."""
        reply = self.last(contract.Respond).reply
        self.event(contract.ReplyStarted(reply))
        each = round(seconds * RATE)
        for n in range(words):
            self.event(contract.ReplyText(reply, f"w{n} ", n * each, (n + 1) * each))
        self.event(contract.ReplyAudio(reply, np.full(words * each, 0.5, np.float32)))
        return reply

    def last(self, kind: type[T]) -> T:
        return [order for order in self.engine.orders if isinstance(order, kind)][-1]

    def tells(self, kind: type[T]) -> list[T]:
        return [happening for happening in self.told if isinstance(happening, kind)]

    def kinds(self) -> list[str]:
        return [type(happening).__name__ for happening in self.told]


def test_a_turn_is_committed_and_answered() -> None:
    talk = Harness()
    talk.settle()
    talk.told.clear()
    talk.turn()
    assert talk.kinds() == [
        "SpeechStarted",
        "SpeechStopped",
        "ActivityChanged",
        "InputCommitted",
        "ItemAdded",
        "ItemDone",
        "ReplyStarted",
    ]
    respond = talk.last(contract.Respond)
    context = talk.last(contract.Context)
    assert respond.turn == "t1"
    assert respond.revision == context.revision
    assert context.messages == (contract.Message(role="user", parts=(contract.Turn("t1"),)),)


def test_a_transcript_joins_the_context_in_place_of_the_turn() -> None:
    talk = Harness()
    talk.settle()
    talk.turn()
    talk.event(contract.TranscriptCompleted("t1", "Hello there.", 1.0))
    (done,) = talk.tells(happen.TranscriptCompleted)
    assert done.item == talk.tells(happen.InputCommitted)[0].item
    assert talk.last(contract.Context).messages[0].parts == (contract.Text("Hello there."),)


def test_an_onset_holds_and_a_false_alarm_goes_on_unnoticed() -> None:
    talk = Harness()
    talk.settle()
    talk.turn()
    talk.speak(seconds=0.2)
    talk.pass_time(0.5)
    talk.told.clear()
    talk.event(contract.Onset(32000))
    assert len(talk.pass_time(0.3)) <= 1, "only the fade leaves"
    talk.event(contract.OnsetDropped())
    assert len(talk.pass_time(0.3)) >= 14
    assert talk.told == []


def test_a_caller_who_speaks_cuts_the_reply_to_what_was_heard() -> None:
    talk = Harness()
    talk.settle()
    talk.turn()
    talk.event(contract.TranscriptCompleted("t1", "Count.", 1.0))
    reply = talk.speak(words=10, seconds=0.1)
    talk.pass_time(0.52)
    talk.told.clear()
    talk.event(contract.Onset(32000))
    talk.pass_time(0.1)
    talk.event(contract.SpeechStarted("t2", 32000))
    kinds = [k for k in talk.kinds() if k != "ActivityChanged"]
    assert kinds == [
        "SpeechStarted",
        "ReplyItemEnded",
        "ReplyEnded",
        "PlayoutCleared",
        "ItemTruncated",
    ]
    (ended,) = talk.tells(happen.ReplyEnded)
    assert (ended.reply, ended.status, ended.reason) == (reply, "cancelled", "turn_detected")
    assert contract.Cancel(reply) in talk.engine.orders
    (cut,) = talk.tells(happen.ItemTruncated)
    assert cut.audio_end_ms == 520
    assert talk.last(contract.Context).messages[-1].parts == (contract.Text("w0 w1 w2 w3 w4"),)
    assert talk.pass_time(0.5) == [], "nothing more is heard of it"
    talk.event(contract.ReplyAudio(reply, np.ones(4800, np.float32)))
    assert talk.pass_time(0.5) == [], "sound of a finished reply is dropped"


def test_noise_that_cut_a_reply_gets_the_rest_spoken() -> None:
    talk = Harness()
    talk.settle()
    talk.turn()
    talk.speak(words=10, seconds=0.1)
    talk.pass_time(0.52)
    talk.event(contract.Onset(32000), contract.SpeechStarted("t2", 32000))
    talk.event(contract.SpeechStopped("t2", 40000), contract.TurnDropped("t2"))
    assert talk.last(contract.Respond).verbatim == "w5 w6 w7 w8 w9"


def test_a_sentence_cut_at_a_comma_stays_one_message() -> None:
    talk = Harness()
    talk.settle()
    talk.turn("t1")
    talk.event(contract.TranscriptCompleted("t1", "Tell me,", 1.0))
    talk.speak()
    talk.event(contract.Onset(20000), contract.SpeechStarted("t2", 20000))
    talk.event(contract.SpeechStopped("t2", 40000), contract.TurnEnded("t2", 20000, 40000))
    parts = (contract.Text("Tell me,"), contract.Turn("t2"))
    assert talk.last(contract.Context).messages == (contract.Message(role="user", parts=parts),)


def test_a_turn_whose_words_come_late_neither_loses_the_floor_nor_its_answer() -> None:
    talk = Harness()
    talk.settle()
    talk.event(contract.SpeechStarted("t1", 0), contract.SpeechStopped("t1", 16000))
    talk.event(contract.SpeechStarted("t2", 17000), contract.TurnEnded("t1", 0, 16000))
    assert not talk.tells(happen.ReplyStarted), "the caller speaks"
    talk.event(contract.SpeechStopped("t2", 20000), contract.TurnDropped("t2"))
    assert talk.last(contract.Respond).turn == "t1"
    talk.event(contract.SpeechStarted("t3", 30000), contract.SpeechStopped("t3", 40000))
    talk.event(contract.TurnEnded("t3", 30000, 40000))
    assert talk.last(contract.Respond).turn == "t3"


def test_a_session_that_may_not_be_interrupted_answers_afterwards() -> None:
    talk = Harness(interrupt_response=False)
    talk.settle()
    talk.turn("t1")
    reply = talk.speak()
    talk.pass_time(0.2)
    talk.turn("t2")
    assert not talk.tells(happen.PlayoutCleared)
    assert talk.last(contract.Respond).turn == "t1"
    talk.event(contract.ReplyEnded(reply, "completed"))
    assert talk.last(contract.Respond).turn == "t2"


def test_a_turn_is_left_to_the_client_where_it_wants_to_ask_itself() -> None:
    talk = Harness(create_response=False)
    talk.settle()
    talk.turn()
    assert talk.tells(happen.InputCommitted)
    assert not talk.tells(happen.ReplyStarted)
    talk.session.respond(ReplyRequest())
    assert len(talk.tells(happen.ReplyStarted)) == 1


def test_a_session_may_have_one_tool_called_at_a_time() -> None:
    for parallel, calls in ((True, 2), (False, 1)):
        talk = Harness(parallel_calls=parallel)
        talk.settle()
        talk.turn()
        reply = talk.last(contract.Respond).reply
        talk.event(
            contract.ToolCall(reply, "c1", "f", "{}"), contract.ToolCall(reply, "c2", "f", "{}")
        )
        talk.event(contract.ReplyEnded(reply, "completed"))
        (ended,) = talk.tells(happen.ReplyEnded)
        assert len(ended.output) == calls


def test_a_session_that_only_listens_greets_nobody_and_tells_its_engine_so() -> None:
    talk = Harness(greeting="Hello.", replies=False, create_response=False)
    talk.settle()
    talk.turn()
    assert not talk.last(contract.Settings).replies
    assert not talk.tells(happen.ReplyStarted)


def test_who_replies_by_himself_takes_no_commit_either() -> None:
    talk = Harness(info=INFO_BY_ITSELF)
    talk.session.hear(np.zeros(16000, np.float32))
    for asked in (talk.session.commit, lambda: talk.session.respond(ReplyRequest())):
        with pytest.raises(RequestError) as refused:
            asked()
        assert refused.value.param == "type"


def test_an_answered_pause_is_not_left_held_when_interruptions_are_turned_off() -> None:
    talk = Harness()
    talk.settle()
    talk.turn()
    talk.speak()
    talk.pass_time(0.1)
    talk.event(contract.Onset(20000))
    talk.session.update("off", SessionSettings(interrupt_response=False))
    order = talk.last(contract.Settings)
    talk.event(contract.Applied(order.id, order), contract.SpeechStarted("t2", 20000))
    assert len(talk.pass_time(0.2)) >= 9


def test_a_message_deleted_while_it_is_spoken_goes_on_unwritten() -> None:
    talk = Harness()
    talk.settle()
    talk.turn()
    reply = talk.speak(words=2)
    talk.session.items.delete(talk.tells(happen.ReplyItemStarted)[0].item.id)
    talk.event(contract.ReplyText(reply, "more", 4800, 7200))
    talk.event(contract.ReplyEnded(reply, "completed"))
    assert talk.tells(happen.ReplyEnded)[0].status == "completed"


def test_words_whose_sound_was_never_made_are_not_in_the_context_after_a_cut() -> None:
    talk = Harness(paced=False)
    talk.settle()
    talk.turn()
    reply = talk.last(contract.Respond).reply
    for n in range(4):
        talk.event(contract.ReplyText(reply, f"w{n} ", n * 2400, (n + 1) * 2400))
    talk.event(contract.ReplyAudio(reply, np.zeros(4800, np.float32)))
    talk.pass_time(2)
    talk.event(contract.SpeechStarted("t2", 40000))
    assert talk.last(contract.Context).messages[-1].parts == (contract.Text("w0 w1"),)


def test_noise_asks_nothing_of_an_engine_that_replies_by_itself() -> None:
    talk = Harness(info=INFO_BY_ITSELF)
    talk.settle()
    talk.event(contract.ReplyStarted("own"), contract.ReplyAudio("own", np.ones(24000, np.float32)))
    talk.pass_time(0.2)
    talk.event(contract.Onset(0), contract.SpeechStarted("t", 0))
    talk.event(contract.SpeechStopped("t", 9), contract.TurnDropped("t"))
    assert not [o for o in talk.engine.orders if isinstance(o, contract.Respond)]


def test_a_caller_who_speaks_is_not_idle() -> None:
    talk = Harness(idle_timeout_ms=1000, interrupt_response=False)
    talk.settle()
    talk.turn()
    reply = talk.speak()
    talk.event(contract.SpeechStarted("t2", 20000), contract.ReplyEnded(reply, "completed"))
    talk.pass_time(5)
    assert not talk.tells(happen.IdleTimedOut)


def test_a_conversation_holds_a_bounded_amount_of_text() -> None:
    talk = Harness()
    talk.settle()
    for number in range(20):
        content = (Content(kind="text", text="x" * 60_000),)
        talk.session.items.create(Item(id=f"i{number}", content=content), None)
    assert talk.session.conversation.size <= 512 * 1024
    assert talk.tells(happen.ItemDeleted)[0].item == "i0"


def test_a_second_reply_is_refused_while_one_is_made() -> None:
    talk = Harness()
    talk.settle()
    talk.session.respond(ReplyRequest())
    with pytest.raises(RequestError) as refused:
        talk.session.respond(ReplyRequest())
    assert refused.value.code == "conversation_already_has_active_response"
    talk.session.respond(ReplyRequest(out_of_band=True, input=()))
    assert len(talk.tells(happen.ReplyStarted)) == 2


def test_cancelling_nothing_is_said_to_be_so() -> None:
    talk = Harness()
    with pytest.raises(RequestError, match=r"^Cancellation failed"):
        talk.session.cancel(None)


def test_a_client_that_sends_no_settings_gets_the_defaults() -> None:
    talk = Harness(greeting="Welcome.")
    talk.pass_time(0.4)
    assert not talk.engine.orders
    talk.pass_time(0.2)
    order = talk.last(contract.Settings)
    talk.event(contract.Applied(order.id, order))
    assert not talk.tells(happen.SettingsApplied)
    assert talk.last(contract.Respond).verbatim == "Welcome."


def test_a_reply_nothing_comes_of_fails_aloud() -> None:
    talk = Harness()
    talk.settle()
    talk.turn()
    talk.pass_time(21)
    (ended,) = talk.tells(happen.ReplyEnded)
    assert (ended.status, ended.error_code) == ("failed", "reply_timeout")


def test_the_end_of_the_engine_ends_everything_with_a_reason() -> None:
    talk = Harness()
    talk.settle()
    talk.turn()
    talk.event(contract.Closed("engine_lost", 16000, 0))
    assert talk.kinds()[-3:] == ["ReplyEnded", "Faulted", "Ended"]
    talk.turn("t2")
    assert talk.kinds()[-1] == "Ended"


def test_a_client_on_a_socket_corrects_what_was_heard() -> None:
    talk = Harness(paced=False)
    talk.settle()
    talk.turn()
    talk.speak(words=10, seconds=0.1)
    talk.pass_time(0.35)
    talk.event(contract.SpeechStarted("t2", 32000))
    assert not talk.tells(happen.ItemTruncated), "the client plays, so the client says"
    assert talk.last(contract.Context).messages[-1].parts == (contract.Text("w0 w1 w2"),)
    item = talk.tells(happen.ReplyItemStarted)[0].item.id
    talk.session.items.truncate(item, 0, 250)
    assert talk.last(contract.Context).messages[-1].parts == (contract.Text("w0 w1"),)
    with pytest.raises(RequestError) as refused:
        talk.session.items.truncate(item, 0, 1300)
    assert refused.value.param == "audio_end_ms"


def test_a_cut_at_the_end_keeps_the_last_word_of_a_reply_of_any_length() -> None:
    talk = Harness(paced=False)
    talk.settle()
    talk.turn()
    reply = talk.tells(happen.ReplyStarted)[-1].reply
    talk.event(contract.ReplyAudio(reply, np.zeros(24_013, np.float32)))
    talk.event(contract.ReplyText(reply, "Good morning", 0, 24_013))
    talk.event(contract.ReplyEnded(reply, "completed"))
    item = talk.tells(happen.ReplyItemStarted)[0].item.id
    for end in (1000, 1150):
        talk.session.items.truncate(item, 0, end)
        assert talk.session.items.find(item).content[0].text == "Good morning"


def test_an_item_may_be_given_twice_to_one_response() -> None:
    talk = Harness()
    talk.settle()
    said = Item(id="item_a", content=(Content(kind="text", text="Hello"),))
    talk.session.respond(ReplyRequest(out_of_band=True, input=(said, said)))
    hello = contract.Text("Hello")
    assert talk.last(contract.Respond).messages == (contract.Message("user", (hello, hello)),)


def test_an_interruption_ends_what_is_heard_beside_the_conversation_too() -> None:
    talk = Harness()
    talk.settle()
    talk.session.respond(ReplyRequest(out_of_band=True))
    reply = talk.tells(happen.ReplyStarted)[-1].reply
    talk.event(contract.ReplyAudio(reply, np.zeros(RATE, np.float32)))
    talk.pass_time(0.2)
    talk.event(contract.SpeechStarted("t", 16_000))
    assert talk.tells(happen.ReplyEnded)[-1].status == "cancelled"


def test_a_short_commit_is_refused_and_a_long_one_is_not_answered() -> None:
    talk = Harness(turns=contract.TurnDetection(kind="none"))
    talk.settle()
    talk.session.hear(np.zeros(1000, np.float32))
    with pytest.raises(RequestError) as refused:
        talk.session.commit()
    assert refused.value.code == "input_audio_buffer_commit_empty"
    talk.session.hear(np.zeros(16000, np.float32))
    talk.session.commit()
    turn = talk.last(contract.Commit).turn
    talk.event(contract.TurnEnded(turn, 0, 17000))
    assert talk.tells(happen.InputCommitted)
    assert not talk.tells(happen.ReplyStarted)


def test_silence_after_a_reply_is_taken_for_an_answer_when_asked() -> None:
    talk = Harness(idle_timeout_ms=5000)
    talk.settle()
    talk.turn()
    reply = talk.speak()
    talk.event(contract.ReplyEnded(reply, "completed"))
    talk.pass_time(7)
    assert not talk.tells(happen.IdleTimedOut), "of a microphone that is off nothing is made"
    talk.session.hear(np.zeros(48000, np.float32))
    talk.pass_time(0.1)
    assert len(talk.tells(happen.IdleTimedOut)) == 1
    talk.event(contract.TurnEnded(talk.last(contract.Commit).turn, 16000, 16000))
    assert len(talk.tells(happen.ReplyStarted)) == 2


def scenes() -> st.SearchStrategy[list[str]]:
    return st.lists(
        st.sampled_from(
            [
                "turn",
                "noise",
                "false alarm",
                "speak",
                "reply ends",
                "reply fails",
                "time",
                "cancel",
                "clear",
                "text",
                "respond",
                "tool",
            ]
        ),
        max_size=40,
    )


def play(talk: Harness, scene: str, number: int) -> None:
    replies = [o.reply for o in talk.engine.orders if isinstance(o, contract.Respond)]
    reply = replies[-1] if replies else "none"
    turn = f"t{number}"
    match scene:
        case "turn":
            talk.turn(turn)
            talk.event(contract.TranscriptCompleted(turn, "Words.", 1.0))
        case "noise":
            talk.event(contract.Onset(0), contract.SpeechStarted(turn, 0))
            talk.event(contract.SpeechStopped(turn, 9), contract.TurnDropped(turn))
        case "false alarm":
            talk.event(contract.Onset(0), contract.OnsetDropped())
        case "speak" if replies:
            talk.speak(words=3)
        case "reply ends":
            talk.event(contract.ReplyEnded(reply, "completed"))
        case "reply fails":
            talk.event(contract.ReplyEnded(reply, "failed", "no model"))
        case "time":
            talk.pass_time(0.3)
        case "cancel":
            talk.session.cancel(None)
        case "clear":
            talk.session.clear_output()
        case "text":
            content = (Content(kind="text", text="Hi"),)
            talk.session.items.create(Item(id=f"i{number}", content=content), None)
        case "respond":
            talk.session.respond(ReplyRequest())
        case "tool":
            talk.event(contract.ToolCall(reply, f"c{number}", "f", "{}"))


@given(scenes(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_reply_and_item_begins_and_ends_exactly_once(steps: list[str], paced: bool) -> None:
    talk = Harness(paced=paced)
    talk.settle()
    for number, scene in enumerate(steps):
        try:
            play(talk, scene, number)
        except RequestError:
            continue
    talk.session.close("hangup")
    started = [h.reply for h in talk.tells(happen.ReplyStarted)]
    ended = [h.reply for h in talk.tells(happen.ReplyEnded)]
    assert sorted(started) == sorted(ended)
    assert len(set(started)) == len(started)
    begun = [(h.reply, h.index, h.item.id) for h in talk.tells(happen.ReplyItemStarted)]
    done = [(h.reply, h.index, h.item.id) for h in talk.tells(happen.ReplyItemEnded)]
    assert sorted(begun) == sorted(done)
    assert alternates(talk.told)
    assert talk.kinds()[-1] == "Ended"


def alternates(told: list[Happening]) -> bool:
    """Whether at most one in-band reply is made at a time, and what is told of it lies inside."""
    active: str | None = None
    for happening in told:
        if isinstance(happening, happen.ReplyStarted):
            if active is not None:
                return False
            active = happening.reply
        elif isinstance(happening, happen.ReplyText | happen.ReplyAudio | happen.ReplyItemStarted):
            if happening.reply != active:
                return False
        elif isinstance(happening, happen.ReplyEnded):
            active = None
    return True
