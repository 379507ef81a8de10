"""Clauses: nothing is lost, nothing is read aloud that is no word, and the first comes soon."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cascade.clauses import FIRST_WORDS, LONGEST_CHARACTERS, LONGEST_WORDS, Clauses
from engine.cascade.speakable import Speakable

fragments = st.sampled_from(
    [
        *("Hello", " there", ",", ".", "!", " ", "\n", "\n\n", " 3.5", " Dr.", "1. ", "- ", "* "),
        *(
            "**",
            "_",
            "`",
            "```python\n",
            "```",
            "# ",
            "> ",
            "[a link](https://x.y/z)",
            "[",
            "](",
            ")",
        ),
        *(
            "<b>",
            "</b>",
            "<",
            "<think>",
            "</think>",
            "<|im_end|>",
            "<tool_call>",
            "[TOOL_CALLS]",
            "Assistant: ",
            "\U0001f600",
            "|",
        ),
        *("naïve", " — ", "snake_case", "。", " 2 * 3", "---\n", "don't", "…", " word"),
    ]
)
texts = st.lists(fragments, max_size=60).map("".join)


def clauses(pieces: list[str], longest: int = 1000) -> list[str]:
    cutter = Clauses(longest)
    return [clause for piece in pieces for clause in cutter.push(piece)] + cutter.finish()


def cleaned(text: str) -> str:
    speakable = Speakable()
    return " ".join(word.text for word in [*speakable.push(text), *speakable.finish()])


@given(texts, st.data())
def test_clauses_are_the_cleaned_text_however_it_was_cut(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert clauses(pieces) == clauses([text])
    assert clauses(list(text)) == clauses([text])
    assert " ".join(clauses(pieces)) == cleaned(text)


@given(st.lists(st.text("abcdefg'é0123456789.,!?", min_size=1), max_size=40))
def test_plain_words_are_never_changed(words: list[str]) -> None:
    assert " ".join(clauses([" ".join(words)])) == " ".join(words)


@given(texts)
def test_no_clause_is_empty_or_longer_than_a_voice_is_given(text: str) -> None:
    for clause in clauses([text]):
        assert clause.strip() == clause != ""
        assert len(clause.split()) <= LONGEST_WORDS
        assert " " not in clause or len(clause) <= LONGEST_CHARACTERS + LONGEST_WORDS


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("**Bold** and *slanted* and `code`.", "Bold and slanted and code."),
        ("# Title\nText _here_.", "Title Text here."),
        ("- one\n- two\n* three", "one two three"),
        ("1. Boil water.\n2. Wait.", "1. Boil water. 2. Wait."),
        ("4.", "4."),
        ("See [the page](https://example.com/a_b) now.", "See the page now."),
        ("![a cat](cat.png) sleeps", "a cat sleeps"),
        ("Use <b>this</b> one<br/> please", "Use this one please"),
        ("<think>He wants\na joke.</think>Why not?", "Why not?"),
        ("<think>never closed", ""),
        ("Done.<|im_end|>", "Done."),
        ("Assistant: Hi!\nUser: Hello.", "Hi! Hello."),
        ("Sure \U0001f600\U0001f44d\U0001f3fd!", "Sure !"),
        ("```python\nprint\n```\nRun it.", "print Run it."),
        ("keep snake_case and 3 < 4 and a[0] as they are", None),
        ("It costs $3.50, or 2*3 euros (cheap).", None),
        ("> quoted words", "quoted words"),
        ("Title\n---\nText", "Title Text"),
    ],
)
def test_markup_is_not_read_aloud(written: str, spoken: str | None) -> None:
    assert cleaned(written) == (written if spoken is None else spoken)


@pytest.mark.parametrize(
    "call",
    [
        '<tool_call>{"name": "lamp"}</tool_call> Done.',
        '<|tool_call|>{"name": "lamp"}',
        '<|python_tag|>{"name": "lamp"}',
        "<function=lamp>{}</function>",
        '[TOOL_CALLS] [{"name": "lamp"}]',
        "<tool_call",
    ],
)
def test_a_tool_call_in_the_text_is_not_read_aloud(call: str) -> None:
    cutter = Clauses(1000)
    assert [*cutter.push(f"One moment. {call}"), *cutter.finish()] == ["One moment."]
    assert cutter.calls


def test_the_first_clause_comes_at_five_words_or_at_punctuation() -> None:
    cutter = Clauses(1000)
    assert cutter.push("The capital of France is ") == ["The capital of France is"]
    assert len(["The", "capital", "of", "France", "is"]) == FIRST_WORDS
    assert Clauses(1000).push("Sure, I can ") == ["Sure,"]


def test_later_clauses_are_sentences() -> None:
    text = "Sure. I can do that for you. Yes. It takes a while, you know."
    assert clauses([text]) == [
        "Sure.",
        "I can do that for you.",
        "Yes. It takes a while, you know.",
    ]


def test_abbreviations_and_decimals_end_nothing() -> None:
    text = "Well, I think that Dr. Smith will pay about 3.5 euros at 5 p.m. today."
    assert clauses([text]) == ["Well,", text[6:]]


def test_entries_of_a_list_are_clauses_of_their_own() -> None:
    assert clauses(["You need:\n- two eggs\n- a pan"]) == ["You need:", "two eggs", "a pan"]


def test_a_long_reply_ends_at_a_sentence() -> None:
    cutter = Clauses(longest=8)
    spoken = cutter.push("One two three four five. " * 10)
    assert " ".join(spoken) == "One two three four five. One two three four five."
    assert cutter.full
    assert cutter.push("More. ") == [] == cutter.finish()


def test_a_reply_without_sentences_ends_all_the_same() -> None:
    cutter = Clauses(longest=8)
    spoken = cutter.push("word " * 100)
    assert cutter.full
    assert len(" ".join(spoken).split()) == 16
