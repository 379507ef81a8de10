"""Conversations over GPT-Live: OpenAI's own clients as they are, with the default engine."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import numpy as np
import pytest
from openai import OpenAI
from openai.lib.live import TranscriptGrouper, TranscriptSegment
from openai.types.live import SessionClosedEvent

from engine.contract import Samples
from engine.weights import Paths
from tests.callers import TRACK_RATE
from tests.conformance import javascript
from tests.conformance.ears import ears, share_heard
from tests.conformance.live_callers import PCM, LiveCaller, coded, live_call
from tests.conformance.live_strict import Place, StrictLive
from tests.conformance.openai_live import attached, connected, created, hung_up
from tests.conformance.scripted_brain import Call, Say, address, brain
from tests.serving import Server
from tests.sounds import error_rate, hibari, resampled, words

pytestmark = pytest.mark.weights

MODEL = address()
RATE = 24_000
LOUDER = 3.0
"""Than a reply: an echo guard takes what is not for one."""
AUDIBLE = 0.02
QUESTION = "What time does the library open on Saturday?"
ANSWER = "It opens at nine in the morning."
TASK = Call("delegate", '{"task": "Look up the opening hours."}', text="One moment please.")
RESULT = "The library opens at ten."
BEFORE = [
    {"role": "developer", "content": [{"type": "input_text", "text": "Speak slowly."}]},
    {"role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Good morning."}]},
]
TOLD = {
    "thinking": "The caller is a member.",
    "instructions": "Call the caller Sir.",
    "commentary": RESULT,
}


@pytest.fixture(scope="module")
def server(weights: Paths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    model = ("--engine.llm.url", MODEL, "--engine.llm.model", "scripted")
    with Server(*model, log=tmp_path_factory.mktemp("server") / "log") as running:
        yield running


@cache
def question() -> Samples:
    """It, and the silence behind it."""
    return np.concatenate([LOUDER * hibari(QUESTION, RATE), np.zeros(RATE, np.float32)])


async def says(caller: LiveCaller, text: str) -> None:
    """Waits until a session has said ``text``, in words and aloud."""
    while not caller.strict.said("output").endswith(text):
        await caller.event("session.output_transcript.delta", 30)
    await caller.shown(caller.strict.words("output")[-1]["end_ms"] / 1000 + 0.2)


async def sounds(pcm: Samples, text: str, weights: Paths) -> None:
    async with ears(weights) as judge:
        heard = await judge.hear(pcm, RATE)
    assert share_heard(words(text), heard) >= 0.8, heard


async def test_the_async_client_is_handed_a_task_and_says_what_came_of_it(
    server: Server, weights: Paths
) -> None:
    async with (
        brain(MODEL, TASK, Say("You are welcome.")) as model,
        connected(server.url, instructions="Be kind.", input=BEFORE) as caller,
    ):
        await caller.append(question())
        created = await caller.event("session.delegation.created", 30)
        await says(caller, "One moment please.")
        for kind, content in TOLD.items():
            append = f"session.{kind}.append"
            task = created["delegation"]["id"]
            await caller.send(append, content=content, delegation_id=task)
            appended = await caller.event(f"{append}ed")
            assert appended["start_ms"] >= created["offset_ms"]
        await says(caller, RESULT)
        assert caller.strict.said("output") == f"One moment please. {RESULT}"
        assert error_rate(QUESTION, caller.strict.said("input")) <= 0.2
        await caller.append(question())
        role, *before, _, called, taken, thought, told, spoken, asked = await model.asked(2, 30)
    assert role["content"] == "Be kind."
    assert [said["content"] for said in before] == ["Speak slowly.", "Hello.", "Good morning."]
    assert [said["role"] for said in before] == ["system", "user", "assistant"]
    assert called["content"] == "One moment please."
    assert taken["role"] == "tool"
    assert (thought["role"], told["role"]) == ("system", "system")
    assert TOLD["thinking"] in thought["content"]
    assert told["content"] == TOLD["instructions"]
    assert (spoken["role"], spoken["content"]) == ("assistant", RESULT)
    assert asked["role"] == "user"
    await sounds(caller.pcm, f"One moment please. {RESULT}", weights)


async def test_the_synchronous_client_reads_typed_events_and_groups_what_was_said(
    server: Server,
) -> None:
    async with brain(MODEL, Say(ANSWER)):
        strict, segments = await asyncio.to_thread(converse, server.url)
    strict.finish()
    check_segments([(segment.speaker, segment.text) for segment in segments])


def converse(url: str) -> tuple[StrictLive, list[TranscriptSegment]]:
    """Asks, hears the answer, and ends."""
    strict, segments, closes = StrictLive(), [], False
    with (
        OpenAI(base_url=urljoin(url, "v1"), api_key="none") as client,
        client.live.connect() as connection,
        TranscriptGrouper() as grouper,
    ):
        grouper.on("segment.closed", lambda closed: segments.append(closed.segment))
        strict.asks({"type": "session.start", "event_id": "start"})
        connection.session.start(session={"model": "gpt-live-1"}, event_id="start")
        sound = coded(question(), PCM)
        strict.speaks(len(sound) / 48_000)
        for at in range(0, len(sound), 48_000):
            audio = base64.b64encode(sound[at : at + 48_000]).decode()
            connection.session.input_audio.append(audio=audio)
        event = None
        while not isinstance(event, SessionClosedEvent):
            raw = connection.recv_bytes()
            strict.see(raw.decode())
            event = connection.parse_event(raw)
            grouper.push(event)
            if strict.said("output") == ANSWER and not closes:
                closes = True
                strict.asks({"type": "session.close", "event_id": "end"})
                connection.session.close(event_id="end")
    return strict, segments


def check_segments(segments: list[tuple[str, str]]) -> None:
    """What a client's own grouping makes of a question and its answer."""
    (asker, asked), (answerer, answered) = segments
    assert (asker, answerer) == ("user", "assistant")
    assert error_rate(QUESTION, asked) <= 0.2
    assert answered == ANSWER


async def test_the_client_makes_a_call_watches_it_and_hangs_it_up(
    server: Server, weights: Paths
) -> None:
    speech = resampled(question(), RATE, TRACK_RATE)
    async with (
        brain(MODEL, Say(ANSWER)),
        live_call(server.url, create=created, instructions="Be brief.") as caller,
        attached(server.url, caller.id) as sideband,
    ):
        assert caller.strict.events[0]["session"]["instructions"] == "Be brief."
        began = sideband.strict.first + 1000 * sideband.strict.seconds
        caller.microphone.say(speech)
        await says(sideband, ANSWER)
        asked = sideband.strict.words("input")
        assert error_rate(QUESTION, sideband.strict.said("input")) <= 0.2
        assert abs(asked[0]["start_ms"] - began) < 1_500
        assert 1_500 < asked[-1]["end_ms"] - asked[0]["start_ms"] < 4_500
        check_words(sideband)
        await hung_up(server.url, caller.id)
        for each in (caller, sideband):
            assert (await each.event("session.closed"))["reason"] == "close_requested"
        assert await asyncio.wait_for(sideband.closed, 15) == 1000
    heard = np.concatenate([pcm for _, pcm in caller.heard])
    await sounds(resampled(heard, TRACK_RATE, RATE), ANSWER, weights)


def check_words(sideband: LiveCaller) -> None:
    """A word can be heard where it has its place, and before and behind them all nothing can."""
    pcm, first = np.abs(sideband.pcm), sideband.strict.first
    spoken = sideband.strict.words("output")
    places = [(word["start_ms"] - first, word["end_ms"] - first) for word in spoken]
    for start, end in places:
        assert pcm[RATE * start // 1000 : RATE * end // 1000].max() > AUDIBLE
    end = places[-1][1] + sideband.strict.missed + 100
    assert not pcm[: RATE * places[0][0] // 1000 - 24].any()
    assert (pcm[RATE * end // 1000 :] < AUDIBLE).all()


async def test_in_node_it_errs_starts_speaks_groups_watches_and_hangs_up(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "speech.pcm").write_bytes(coded(question(), PCM))
    async with brain(MODEL, Say(ANSWER)):
        *lines, result = await javascript.told(
            "live.mjs", server.url, tmp_path / "speech.pcm", ANSWER
        )
    caller, sideband = judged(lines, "caller", "socket"), judged(lines, "sideband", "sideband")
    (error,) = caller.errors
    assert result["errors"] == 1
    assert (error["code"], error["param"]) == ("unknown_parameter", "session.instruction")
    assert caller.events[1]["session"]["instructions"] == "Be brief."
    assert caller.events[-1]["reason"] == sideband.events[-1]["reason"] == "close_requested"
    check_segments([(segment["speaker"], segment["text"]) for segment in result["segments"]])
    assert result["segments"][-1]["reason"] == "session_closed"
    assert result["codes"] == [1000, 1000]


def judged(lines: list[dict[str, Any]], source: str, place: Place) -> StrictLive:
    """What a script did and saw of one connection, judged by the script's own clock."""
    now = 0.0
    strict = StrictLive(place, clock=lambda: now)
    for line in lines:
        if line["source"] == source:
            now = line["at"]
            if "asks" in line:
                strict.asks(line["asks"])
            elif "speaks" in line:
                strict.speaks(line["speaks"])
            else:
                strict.see(json.dumps(line["event"]))
    strict.finish()
    return strict
