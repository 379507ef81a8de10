"""The embedded recogniser: its decoding against a made-up model, its words on real speech."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from engine.cascade.moonshine import LONGEST, RATE, Moonshine, greedy, loop, pieces
from engine.cascade.stages import Recognition, StageError
from engine.contract import Samples
from engine.weights import Paths
from tests.sounds import Clip, cards, commands, error_rate, librivox, words

tokens = st.lists(st.integers(0, 3), max_size=12)


class MadeUp:
    """A decoder whose next token depends on all it has read."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def read(self, tokens: Sequence[int]) -> list[int]:
        following = []
        for token in tokens:
            self.seen.append(token)
            following.append(hash(tuple(self.seen)) % 4)
        return following

    def forget(self, tokens: int) -> None:
        del self.seen[-tokens:]


def decoded(hint: Sequence[int]) -> list[int]:
    decoding: Any = MadeUp()
    return list(islice(greedy(decoding, hint), 12))


@given(tokens)
def test_no_hint_changes_what_is_decoded(hint: list[int]) -> None:
    assert decoded(hint) == decoded([])


@given(st.integers(0, 12), tokens)
def test_a_hint_that_is_right_in_part_changes_nothing(right: int, wrong: list[int]) -> None:
    assert decoded(decoded([])[:right] + wrong) == decoded([])


@given(
    st.lists(st.integers(0, 9), max_size=8), st.lists(st.integers(0, 9), min_size=1, max_size=10)
)
def test_a_phrase_said_again_and_again_is_a_loop(start: list[int], phrase: list[int]) -> None:
    said: list[int] = list(start)
    for token in phrase * 8:
        said.append(token)
        if repeated := loop(said):
            break
    assert 0 < repeated < len(said)
    assert not loop(said[:-repeated])


def test_people_may_repeat_themselves() -> None:
    assert not loop([7] * 7)
    assert not loop([1, 2, 3] * 3)


@given(st.integers(0, LONGEST + RATE), st.integers(0, 2**32 - 1))
def test_a_long_take_is_heard_in_pieces(samples: int, seed: int) -> None:
    pcm = np.random.default_rng(seed).random(samples, np.float32)
    heard = list(pieces(pcm))
    assert np.array_equal(np.concatenate(heard), pcm[:LONGEST])
    assert all(len(piece) <= 24 * RATE for piece in heard)
    shorter = pcm[: max(0, len(pcm[:LONGEST]) - RATE)]
    *whole, rest = pieces(shorter)
    assert [len(piece) for piece in whole] == [len(piece) for piece in heard[: len(whole)]]
    assert len(rest) == len(shorter) - sum(map(len, whole))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model(weights: Paths) -> AsyncIterator[Moonshine]:
    recogniser = Moonshine(weights.moonshine)
    await recogniser.start()
    yield recogniser
    await recogniser.stop()


@pytest.mark.weights
@pytest.mark.recordings
@pytest.mark.asyncio(loop_scope="module")
class TestRealSpeech:
    async def test_read_sentences_are_understood(self, model: Moonshine) -> None:
        wrong = said = 0.0
        for clip in librivox(RATE):
            rate = error_rate(clip.text, (await model.transcribe(clip.pcm)).text)
            wrong += rate * len(words(clip.text))
            said += len(words(clip.text))
        assert wrong / said <= 0.06

    async def test_of_silence_it_makes_no_words(self, model: Moonshine) -> None:
        for loudness in (0.0, 0.0005):
            room = np.random.default_rng(1).normal(0, loudness, 3 * RATE).astype(np.float32)
            assert (await model.transcribe(room)).text == ""

    async def test_an_earlier_take_changes_no_word(self, model: Moonshine) -> None:
        for clip in (*librivox(RATE), *cards(RATE), *commands(RATE)):
            earlier = await model.transcribe(clip.pcm[: -int(0.6 * RATE)])
            whole = await model.transcribe(clip.pcm)
            assert await model.transcribe(clip.pcm, before=earlier) == whole

    async def test_nor_does_a_wrong_one(self, model: Moonshine) -> None:
        clips = librivox(RATE)
        for clip, other in zip(clips, reversed(clips), strict=True):
            whole = await model.transcribe(clip.pcm)
            wrong = await model.transcribe(other.pcm)
            assert await model.transcribe(clip.pcm, before=wrong) == whole

    async def test_a_take_longer_than_the_model_can_hear_is_whole(self, model: Moonshine) -> None:
        long = joined(librivox(RATE) + librivox(RATE)[:1])
        heard = await model.transcribe(long.pcm)
        assert error_rate(long.text, heard.text) <= 0.1
        assert await model.transcribe(long.pcm, before=heard) == heard

    async def test_cancelled_work_makes_room_for_the_next(self, model: Moonshine) -> None:
        long = joined(librivox(RATE) * 4).pcm
        short = librivox(RATE)[1].pcm
        begun, *queued = [asyncio.create_task(model.transcribe(long)) for _ in range(5)]
        await asyncio.sleep(0.05)
        for task in (begun, *queued):
            task.cancel()
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert (await model.transcribe(short)).text
        took = loop.time() - started
        await asyncio.gather(begun, *queued, return_exceptions=True)
        assert took < 5  # the five would take some fifteen seconds


@pytest.mark.weights
@pytest.mark.asyncio(loop_scope="module")
class TestOtherSound:
    @pytest.mark.parametrize("samples", [0, 1, 1599])
    async def test_less_than_a_tenth_of_a_second_says_nothing(
        self, model: Moonshine, samples: int
    ) -> None:
        assert await model.transcribe(np.ones(samples, np.float32)) == Recognition("")

    async def test_noise_makes_no_endless_text(self, model: Moonshine) -> None:
        noise = np.random.default_rng(0).normal(0, 0.3, 10 * RATE).astype(np.float32)
        assert len((await model.transcribe(noise)).tokens) <= 10 * 6.5 + 4

    async def test_it_knows_english_only(self, model: Moonshine) -> None:
        assert await model.transcribe(np.zeros(100, np.float32), language="en-US")
        with pytest.raises(StageError, match="language: expected en"):
            await model.transcribe(np.zeros(100, np.float32), language="de")


def joined(clips: Sequence[Clip]) -> Clip:
    pause: Samples = np.zeros(RATE // 2, np.float32)
    pcm = np.concatenate([part for clip in clips for part in (clip.pcm, pause)])
    return Clip("joined", " ".join(clip.text for clip in clips), pcm, RATE)
