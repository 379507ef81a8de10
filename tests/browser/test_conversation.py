"""A conversation in the page: what people say is understood, and the answers are heard.

Ten questions are asked in one call, and every test looks at another side of it. Everything is taken
in the page: its captions, and the sound that goes in and comes out. An answer that goes on and on
is stopped by the page's button; its caption then holds what was heard.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser

from engine.contract import Samples
from engine.weights import Paths
from tests.browser.caller import Caller
from tests.browser.conftest import StolenTime, calling
from tests.browser.recognition import found, recognised
from tests.browser.recording import RATE, Stretch
from tests.browser.voices import FACTS, OPEN, spoken
from tests.conftest import Tell
from tests.serving import Server
from tests.sounds import error_rate, librivox, words

pytestmark = [pytest.mark.browser, pytest.mark.weights, pytest.mark.flite, pytest.mark.timeout(300)]

SEED = int(os.environ.get("SEED", time.time_ns() % 10**6))
"""Of the questions that are drawn; printed, and set by the environment to have them again."""
BUDGET_MS = 850
LISTENING = 6.0
"""Seconds of an answer that are listened to."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A question, how the page showed it and its answer, and how the answer sounded there."""

    question: str
    captioned: str
    answer: str
    response_ms: float | None
    sound: Samples


@dataclass(frozen=True, slots=True)
class Conversation:
    turns: list[Turn]
    stolen: str


@pytest.fixture(scope="module")
def conversation(browser: Browser, server: Server) -> Conversation:
    """Six questions of fact and four open ones, by two synthetic voices, in one call."""
    draw = random.Random(SEED)
    questions = draw.sample(sorted(FACTS), 6) + draw.sample(OPEN, 4)
    draw.shuffle(questions)
    return _conversation(browser, server, questions, draw)


def _conversation(
    browser: Browser, server: Server, questions: list[str], draw: random.Random
) -> Conversation:
    with calling(browser) as caller:
        caller.open(server.url)
        caller.talk()
        stolen = StolenTime()
        turns = [_turn(caller, text, draw.choice(("flite", "hibari"))) for text in questions]
        share = stolen.share()
        caller.hang_up()
    return Conversation(turns, share)


def _turn(caller: Caller, question: str, voice: str) -> Turn:
    said, captions = caller.ask(spoken(question, voice), listening=LISTENING)
    recording = caller.recording()
    return Turn(
        question,
        captioned=" ".join(caption.heard for caption in captions if caption.role == "user"),
        answer=" ".join(caption.heard for caption in captions if caption.role == "assistant"),
        response_ms=recording.response_ms(said),
        sound=recording.heard(Stretch(said.end, recording.end)),
    )


@pytest.mark.recordings
def test_recorded_people_are_captioned_word_for_word(
    caller: Caller, server: Server, tell: Tell
) -> None:
    clips = 2 * librivox(RATE)
    caller.open(server.url)
    caller.talk()
    heard = [_dictated(caller, clip.pcm) for clip in clips]
    rate = error_rate(" ".join(clip.text for clip in clips), " ".join(heard))
    tell(f"captions of recorded people: {rate:.1%} of the words wrong")
    assert rate <= 0.06


def _dictated(caller: Caller, sound: Samples) -> str:
    """What the page's captions say of ``sound``; its answer is not waited for."""
    known = {caption.id for caption in caller.captions()}
    caller.wait_for_frame(caller.say(sound).end)
    caller.wait_for_turn()
    caller.stop_reply()
    captions = [caption for caption in caller.captions() if caption.id not in known]
    return " ".join(caption.heard for caption in captions if caption.role == "user")


def test_every_turn_of_a_long_call_is_answered(conversation: Conversation) -> None:
    assert len(conversation.turns) == 10
    assert all(turn.captioned and turn.answer for turn in conversation.turns)
    assert all(turn.response_ms is not None for turn in conversation.turns)


def test_different_questions_get_different_answers(conversation: Conversation, tell: Tell) -> None:
    tell(f"questions drawn by SEED={SEED}")
    assert len({turn.answer for turn in conversation.turns}) == len(conversation.turns)


def test_most_questions_of_fact_are_answered_right(
    conversation: Conversation, browser: Browser, server: Server, tell: Tell
) -> None:
    """In one of two calls: in one of ten a model this small drifts off, and stays there."""
    facts = [turn.question for turn in conversation.turns if turn.question in FACTS]
    right = _right(conversation)
    tell(f"facts: {right} of {len(facts)} right")
    if right < len(facts) / 2:
        right = _right(_conversation(browser, server, facts, random.Random(SEED)))
        tell(f"facts, in another call: {right} of {len(facts)} right")
    assert right >= len(facts) / 2


def _right(conversation: Conversation) -> int:
    turns = [turn for turn in conversation.turns if turn.question in FACTS]
    return sum(FACTS[turn.question] in words(turn.answer) for turn in turns)


def test_what_is_heard_is_what_the_captions_say(
    conversation: Conversation, weights: Paths, tell: Tell
) -> None:
    turns = conversation.turns
    texts = recognised(weights, [turn.sound for turn in turns])
    counts = [found(turn.answer, text) for turn, text in zip(turns, texts, strict=True)]
    heard, captioned = (sum(column) for column in zip(*counts, strict=True))
    tell(f"captioned words found in the sound: {heard / captioned:.1%} of {captioned}")
    assert heard >= 0.8 * captioned


def test_an_answer_is_heard_soon_after_the_question(conversation: Conversation, tell: Tell) -> None:
    taken = sorted(turn.response_ms for turn in conversation.turns if turn.response_ms is not None)
    median = statistics.median(taken)
    tell(
        f"end of speech to the first audible reply sample, in the page, {len(taken)} turns: median "
        f"{median:.0f} ms, longest {taken[-1]:.0f} ms, budget {BUDGET_MS} ms, {conversation.stolen}"
    )
    assert median <= 2 * BUDGET_MS
