"""What the conversation promises: order, and the words whose sound was heard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import Message, Text, Turn
from server.conversation import Content, Conversation, DuplicateItem, Item, UnknownItem

words = st.lists(
    st.tuples(st.text("abc", min_size=1, max_size=6), st.integers(1, 5000)), max_size=30
)


def said(item_id: str, text: str | None, turn: str | None = None) -> Item:
    return Item(id=item_id, content=(Content(kind="audio", text=text),), turn=turn)


def reply(item_id: str) -> Item:
    return Item(id=item_id, role="assistant", content=(Content(kind="audio", text=""),))


@given(words, st.integers(0, 200_000))
def test_a_cut_keeps_exactly_the_words_whose_sound_had_ended(
    spoken: list[tuple[str, int]], heard: int
) -> None:
    conversation = Conversation()
    conversation.add(reply("r"))
    end = 0
    kept: list[str] = []
    lost: list[str] = []
    for word, length in spoken:
        end += length
        conversation.speak("r", word + " ", end)
        (kept if end <= heard else lost).append(word)
    cut = conversation.cut("r", heard)
    assert (cut.content[0].text or "").split() == kept
    assert conversation.unheard("r", heard).split() == lost
    assert cut.status == "incomplete"
    heard_messages = [m for m in conversation.messages() if m.role == "assistant"]
    assert [p.text.split() for m in heard_messages for p in m.parts if isinstance(p, Text)] == (
        [kept] if kept else []
    )


def test_a_cut_that_was_estimated_too_short_can_be_corrected() -> None:
    conversation = Conversation()
    conversation.add(reply("r"))
    for end, word in ((100, "one "), (200, "two "), (300, "three")):
        conversation.speak("r", word, end)
    conversation.cut("r", 100)
    assert conversation.cut("r", 250).content[0].text == "one two"


def test_turns_with_no_heard_reply_between_them_are_one_message() -> None:
    conversation = Conversation()
    conversation.add(said("a", "Tell me,", "t1"))
    conversation.add(reply("r"))
    conversation.speak("r", "Sure", 500)
    conversation.cut("r", 0)
    conversation.add(said("b", None, "t2"))
    assert conversation.messages() == (
        Message(role="user", parts=(Text(text="Tell me,"), Turn(turn="t2"))),
    )


def test_a_heard_reply_stands_between_turns() -> None:
    conversation = Conversation()
    conversation.add(said("a", "Hello", "t1"))
    conversation.add(reply("r"))
    conversation.speak("r", "Hi", 10)
    conversation.cut("r", 10)
    conversation.add(said("b", "What?", "t2"))
    assert [m.role for m in conversation.messages()] == ["user", "assistant", "user"]


def test_a_call_and_its_output_reach_the_model() -> None:
    conversation = Conversation()
    conversation.add(
        Item(id="c", kind="function_call", role="assistant", call_id="1", name="f", arguments="{}")
    )
    conversation.add(Item(id="o", kind="function_call_output", call_id="1", output="42"))
    call, output = conversation.messages()
    assert (call.role, call.tool_calls[0].name) == ("assistant", "f")
    assert (output.role, output.call_id, output.parts) == ("tool", "1", (Text(text="42"),))


positions = st.lists(st.one_of(st.none(), st.just("root"), st.integers(0, 20)), max_size=20)


@given(positions)
def test_items_stand_where_they_were_put(places: list[str | int | None]) -> None:
    conversation, expected = Conversation(), list[str]()
    for number, place in enumerate(places):
        after = f"i{place % number}" if isinstance(place, int) and number else place
        after = after if isinstance(after, str) else None
        previous = conversation.add(said(f"i{number}", "x"), after)
        at = len(expected) if after is None else 0 if after == "root" else expected.index(after) + 1
        expected.insert(at, f"i{number}")
        assert previous == (expected[at - 1] if at else None)
    assert [item.id for item in conversation.items()] == expected


def test_wrong_ids_change_nothing() -> None:
    conversation = Conversation()
    conversation.add(said("a", "x"))
    with pytest.raises(DuplicateItem):
        conversation.add(said("a", "y"))
    with pytest.raises(UnknownItem):
        conversation.add(said("b", "y"), after="nowhere")
    with pytest.raises(UnknownItem):
        conversation.delete("b")
    assert [item.id for item in conversation.items()] == ["a"]
