"""The embedded voice: what it says can be understood, and it knows when it says which word."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from engine.cascade.hibari import AUDIBLE, RATE, Hibari
from engine.cascade.moonshine import RATE as HEARING
from engine.cascade.moonshine import Moonshine
from engine.cascade.stages import Spoken, StageError, Word
from engine.weights import Paths
from tests.sounds import SENTENCES, resampled, words

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def voice() -> AsyncIterator[Hibari]:
    voice = Hibari()
    await voice.start()
    yield voice
    await voice.stop()


async def said(voice: Hibari, text: str) -> tuple[Spoken, list[Spoken]]:
    """The whole of what is spoken, and its pieces."""
    pieces = [piece async for piece in voice.speak(text, "")]
    pcm = np.concatenate([np.zeros(0, np.float32), *(piece.pcm for piece in pieces)])
    return Spoken(pcm, tuple(word for piece in pieces for word in piece.words)), pieces


TEXTS = [
    "Sure, the capital of France is Paris.",
    "It costs $5.20 in Dr. Smith's café, OK?",
    "The answer is 42 - or so... I think 😀 it is!",
    "  Two  spaces\nand a line.\n\nAnother. ",
    "I was born on 3/4/1999 at 7:30 pm in St. Paul, (Minnesota).",
    "Look at [this](http://example.org/a?b=c) now",
    "...",
    "😀",
    " ",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
async def test_words_joined_are_the_text_and_their_times_ascend(voice: Hibari, text: str) -> None:
    spoken, _ = await said(voice, text)
    assert "".join(word.text for word in spoken.words) == text
    times = [time for word in spoken.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert all(0 <= time <= len(spoken.pcm) for time in times)


@pytest.mark.weights
async def test_cut_behind_a_word_just_the_words_before_are_understood(
    voice: Hibari, weights: Paths
) -> None:
    recogniser = Moonshine(weights.moonshine)
    await recogniser.start()
    text = "The station is behind the big yellow building on the left."
    spoken, _ = await said(voice, text)
    whole = words(text)
    for count in (2, 3, 4, 5, 6, 7, 8, 11):
        heard = np.pad(spoken.pcm[: spoken.words[count - 1].end], (0, RATE // 3))
        recognition = await recogniser.transcribe(resampled(heard, RATE, HEARING))
        understood = words(recognition.text)
        assert understood[:count] == whole[:count]
        # A recogniser may end the sentence by itself, but not with what was cut off.
        assert not set(understood[count:]) & set(whole[count:])
    assert understood == whole
    await recogniser.stop()


@pytest.mark.parametrize(
    ("text", "seconds"), [("Sure.", 0.3), ("Well,", 0.18), ("I would be", 0.05), ("“Yes!” ", 0.3)]
)
async def test_it_begins_at_once_and_ends_in_a_pause_that_fits(
    voice: Hibari, text: str, seconds: float
) -> None:
    spoken, _ = await said(voice, text)
    heard = np.flatnonzero(np.abs(spoken.pcm) > AUDIBLE)
    assert heard[0] == RATE // 100
    assert len(spoken.pcm) - 1 - heard[-1] == int(seconds * RATE)


async def test_a_word_that_is_several_when_spoken_takes_their_time(voice: Hibari) -> None:
    spoken, _ = await said(voice, "It costs $5.20 - or so, in Dr. Smith's shop.")
    seconds = {word.text.strip(): (word.end - word.start) / RATE for word in spoken.words}
    assert seconds["$5.20"] > 1
    assert seconds["-"] == 0
    assert all(0.04 < seconds[word] < 0.6 for word in ("It", "or", "so,", "in", "Dr.", "shop."))


async def test_sentences_come_one_by_one(voice: Hibari) -> None:
    text = "First this. Then that, Mr. Brown! And then?"
    _spoken, pieces = await said(voice, text)
    assert ["".join(word.text for word in piece.words) for piece in pieces] == [
        "First this. ",
        "Then that, Mr. Brown! ",
        "And then?",
    ]
    assert pieces[1].words[0].start >= len(pieces[0].pcm)


async def test_a_sentence_without_end_is_spoken_in_parts(voice: Hibari) -> None:
    text = ", ".join(SENTENCES * 2).replace("?", "").replace(".", "")
    spoken, pieces = await said(voice, text)
    assert len(pieces) > 1
    assert "".join(word.text for word in spoken.words) == text
    assert all("".join(w.text for w in piece.words).rstrip().endswith(",") for piece in pieces[:-1])


async def test_what_cannot_be_spoken_still_stands_in_the_text(voice: Hibari) -> None:
    spoken, _ = await said(voice, "😀")
    assert spoken.words == (Word("😀", 0, 0),)
    assert not len(spoken.pcm)


async def test_the_same_text_sounds_the_same(voice: Hibari) -> None:
    once, again = [(await said(voice, "Hello there.")) for _ in range(2)]
    assert np.array_equal(once[0].pcm, again[0].pcm)


async def test_a_voice_it_has_not_is_refused(voice: Hibari) -> None:
    with pytest.raises(StageError, match="voice: expected heart"):
        await anext(voice.speak("Hello.", "emma"))
