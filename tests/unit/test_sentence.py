"""Whether words end a sentence, as a language model tells."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from engine.cascade import sentence
from engine.cascade.llama import Llama
from engine.cascade.sentence import NextToken, end_probability, unended, verdict
from engine.cascade.stages import Prompt
from engine.contract import Message, Text
from engine.weights import Paths

COMPLETE = (
    "What is the capital of France?",
    "I would like to book a table for four people on Friday.",
    "Could you tell me what the weather will be like tomorrow?",
    "The meeting has been moved to Wednesday morning.",
    "Thank you very much for your help.",
)
CUT = (
    "What is the.",
    "I would like to.",
    "Could you tell me what?",
    "The meeting has.",
    "Please turn off the lights in the",
)


def test_words_decide_only_where_they_can() -> None:
    assert verdict("I would like to", 0.01) == 0.0
    assert verdict("What is the capital of France?", 0.9) == 1.0
    assert verdict("I would like a table", 0.2) is None
    assert verdict("My name is Rebecca,", 0.9) == 0.0
    assert verdict("Tomorrow.", 0.01) is None, "an answer may be one word"
    assert verdict("I would like to", None) is None


def test_a_prompt_is_left_open_behind_the_last_word() -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "And then?"}]
    assert unended(messages) == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nAnd then"
    )


def test_marks_and_ends_are_counted_and_words_are_not() -> None:
    tokens = (".", " and", ",", "<|im_end|>", "")
    likely = [NextToken(token=token, logprob=math.log(0.2)) for token in tokens]
    assert end_probability(likely) == pytest.approx(0.8)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model(weights: Paths) -> AsyncIterator[Llama]:
    model = Llama(weights.smollm2, callers=1)
    await model.start()
    yield model
    await model.stop()


def heard(said: str) -> Prompt:
    return Prompt("caller", "", (Message(role="user", parts=(Text(text=said),)),))


@pytest.mark.weights
@pytest.mark.asyncio(loop_scope="module")
class TestSmolLM2:
    async def test_complete_sentences_are_told_from_cut_ones(self, model: Llama) -> None:
        whole = [await model.ends(heard(said)) or 0.0 for said in COMPLETE]
        cut = [await model.ends(heard(said)) or 0.0 for said in CUT]
        assert min(whole) > sentence.WHOLE
        assert max(cut) < sentence.PART

    async def test_what_was_weighed_is_not_read_again(self, model: Llama) -> None:
        said = "Could you please tell me something about the history of the city of Rome?"
        await model.ends(heard(said))
        ending = [piece async for piece in model.stream(heard(said))][-1]
        assert ending.usage.input_tokens - ending.usage.cached_tokens < 10  # type: ignore[union-attr]
