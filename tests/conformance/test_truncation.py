"""What the language model is shown of a conversation: what was heard, and nothing that was not.

The model is a script that keeps what it is asked; voice, recogniser and turns are the engine's own.
Where a word ends is told by the voice, and checked by the recogniser on what the caller received.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import takewhile

import numpy as np
import pytest

from engine.cascade.clauses import Clauses
from engine.cascade.hibari import RATE, Hibari
from engine.contract import Samples
from engine.weights import Paths
from tests.callers import SOCKET_RATE, TRACK_RATE, Caller, call, socket
from tests.conformance.ears import ears, share_heard
from tests.conformance.scripted_brain import Say, Stall, address, brain
from tests.serving import Server
from tests.sounds import error_rate, hibari, words

pytestmark = pytest.mark.weights

STORY = (
    "The old lighthouse stands on a rocky island near the harbor. "
    "Every evening the keeper climbs two hundred steps to light the great lamp, "
    "while fishing boats return from the open sea with baskets full of silver herring. "
    "On Sunday mornings the children of the village row across and bring him fresh bread."
)
QUESTION = "Please tell me about the lighthouse."
INTERRUPTION = "Wait, what time is it now?"
PARTS = ("I would like a table for four people,", "near the big window, please.")
TRANSCRIBED = "conversation.item.input_audio_transcription.completed"


URL = address()


@pytest.fixture(scope="module")
def server(weights: Paths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("server") / "log"
    with Server("--engine.llm.url", URL, "--engine.llm.model", "scripted", log=log) as running:
        yield running


async def ends_of_words() -> list[tuple[str, int]]:
    """The words of the story, each with the sample at which its sound ends."""
    voice, clauses, at = Hibari(), Clauses(1000), 0
    await voice.start()
    ends: list[tuple[str, int]] = []
    for clause in [*clauses.push(STORY), *clauses.finish()]:
        begin = at
        async for spoken in voice.speak(clause, ""):
            ends += [(word.text, begin + word.end) for word in spoken.words]
            at += len(spoken.pcm)
    await voice.stop()
    return ends


async def check(kept: str, end_ms: int, received: Samples, rate: int, weights: Paths) -> None:
    """``kept`` are just the words that end before the cut, and what was received says the same."""
    ends = await ends_of_words()
    heard = [text for text, end in takewhile(lambda word: word[1] * 1000 <= end_ms * RATE, ends)]
    assert 0 < len(heard) < len(ends)
    assert words(kept) == words(" ".join(heard))
    async with ears(weights) as judge:
        by_ear = await judge.hear(received[: end_ms * rate // 1000], rate)
    told, follows = words(kept), words(STORY)[len(words(kept)) + 1 :][:4]
    assert share_heard(told, by_ear) >= 0.8, f"kept {told}, heard {by_ear}"
    assert share_heard(told[-3:], by_ear) >= 0.6, f"kept {told}, heard {by_ear}"
    assert share_heard(follows, by_ear[len(told) :]) <= 0.5, f"{follows} follow, heard {by_ear}"


def from_first_sound(caller: Caller) -> Samples:
    """What came on the track, from the sample at which the first reply begins."""
    sound = np.concatenate([pcm for _, pcm in caller.heard])
    first = int(np.flatnonzero(np.abs(sound) > 0.01)[0])
    return sound[first - TRACK_RATE // 100 :]


def transcript(caller: Caller, number: int) -> str:
    """What the caller said in turn ``number``, as the recogniser has it."""
    told = [event for event in caller.strict.events if event["type"] == TRANSCRIBED]
    return str(told[number]["transcript"])


async def test_a_call_that_is_interrupted_leaves_the_words_that_were_heard(
    server: Server, weights: Paths
) -> None:
    async with brain(URL, Say(STORY), Say("It is noon.")) as scripted, call(server.url) as caller:
        caller.microphone.say(hibari(QUESTION, TRACK_RATE))
        await caller.event("output_audio_buffer.started")
        await asyncio.sleep(7)
        caller.microphone.say(hibari(INTERRUPTION, TRACK_RATE))
        cut = await caller.event("conversation.item.truncated")
        received = from_first_sound(caller)
        asked, story, interrupted = (await scripted.asked(2))[-3:]
        await caller.event(TRANSCRIBED)
        assert (await caller.done())["status"] == "completed"
    assert [asked["role"], story["role"], interrupted["role"]] == ["user", "assistant", "user"]
    assert asked["content"] == transcript(caller, 0)
    assert interrupted["content"] == transcript(caller, 1)
    assert error_rate(INTERRUPTION, interrupted["content"]) <= 0.3
    end_ms = cut["audio_end_ms"]
    audible = np.flatnonzero(np.abs(received) > 0.01)
    assert -0.4 < audible[-1] / TRACK_RATE - end_ms / 1000 < 0.15
    await check(story["content"], end_ms, received, TRACK_RATE, weights)


async def test_a_client_says_how_far_it_played(server: Server, weights: Paths) -> None:
    async with (
        brain(URL, Say(STORY), Say("It is noon.")) as scripted,
        socket(server.url, talks=True) as caller,
    ):
        caller.microphone.say(hibari(QUESTION, SOCKET_RATE))
        item = (await caller.event("response.output_item.added"))["item"]["id"]
        assert (await caller.done())["status"] == "completed"  # made, and half played
        caller.microphone.say(hibari(INTERRUPTION, SOCKET_RATE))
        await caller.event("input_audio_buffer.speech_started")
        await caller.send(
            "conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=4_000
        )
        cut = await caller.event("conversation.item.truncated")
        story = (await scripted.asked(2))[-2]
        await caller.done()
    assert (story["role"], cut["audio_end_ms"]) == ("assistant", 4_000)
    received = np.frombuffer(caller.strict.sound[item], "<i2").astype(np.float32)
    await check(story["content"], 4_000, received / np.float32(32768), SOCKET_RATE, weights)


async def test_a_sentence_cut_by_a_pause_is_one_message(server: Server) -> None:
    async with (
        brain(URL, Stall(), Say("Gladly.")) as scripted,
        socket(server.url, talks=True) as caller,
    ):
        detection = {"type": "server_vad", "silence_duration_ms": 300}
        await caller.update(audio={"input": {"turn_detection": detection}})
        caller.microphone.say(hibari(PARTS[0], SOCKET_RATE))
        await scripted.asked(1)
        caller.microphone.say(hibari(PARTS[1], SOCKET_RATE))
        messages = await scripted.asked(2)
        assert (await caller.done())["status"] == "cancelled"
        assert (await caller.done())["status"] == "completed"
    said = [message["content"] for message in messages if message["role"] != "system"]
    assert said == [f"{transcript(caller, 0)} {transcript(caller, 1)}"]
    assert error_rate(" ".join(PARTS), said[0]) < 0.3
