"""The cascade with its real models, end to end: what is said to it is understood and answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from engine.cascade.engine import CascadeEngine
from engine.contract import (
    Close,
    Closed,
    Context,
    EngineBusy,
    EngineSession,
    EngineUnavailable,
    Event,
    Message,
    Onset,
    Played,
    ReplyAudio,
    ReplyEnded,
    ReplyText,
    Respond,
    Samples,
    Settings,
    TranscriptCompleted,
    Turn,
    TurnDetection,
    TurnEnded,
)
from engine.reading import read
from tests.sounds import RECORDED_RATE as RATE
from tests.sounds import error_rate, flite, hibari, librivox

pytestmark = [pytest.mark.weights, pytest.mark.asyncio(loop_scope="module")]
QUESTION = "What time does the library open on Saturday?"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[CascadeEngine]:
    engine = CascadeEngine({"capacity": 2})
    await engine.start()
    yield engine
    await engine.stop()


def spoken(pcm: Samples) -> Samples:
    """``pcm`` in a quiet room, with time before and after."""
    around = np.zeros(RATE // 2, np.float32), np.zeros(RATE * 3 // 2, np.float32)
    sound = np.concatenate([around[0], pcm, around[1]])
    noise = np.random.default_rng(0).normal(0, 2e-4, len(sound))
    return (sound + noise).astype(np.float32)


async def offer(session: EngineSession, pcm: Samples) -> None:
    """As fast as it is taken."""
    while len(pcm):
        room = session.room
        session.hear(pcm[:room])
        pcm = pcm[room:]
        await asyncio.sleep(0.01)


async def converse(session: EngineSession, pcm: Samples) -> list[Event]:
    """Says ``pcm``, has it answered, and ends the session; all that it told."""
    session.order(Settings(id="s", turns=TurnDetection(kind="semantic")))
    offering = asyncio.create_task(offer(session, spoken(pcm)))
    events: list[Event] = []
    played = 0
    async with asyncio.timeout(60):
        async for event in read(session):
            events.append(event)
            if isinstance(event, TurnEnded):
                message = Message(role="user", parts=(Turn(turn=event.turn),))
                session.order(Context(revision=1, messages=(message,)))
                session.order(Respond(reply="r", revision=1, turn=event.turn))
            if isinstance(event, ReplyAudio):
                played += len(event.pcm)
                session.order(Played(reply=event.reply, samples=played))
            if isinstance(event, ReplyEnded):
                session.order(Close())
    await offering
    return events


def transcript(events: list[Event]) -> str:
    return " ".join(e.text for e in events if isinstance(e, TranscriptCompleted))


async def test_its_callers_speak_what_its_recogniser_understands(engine: CascadeEngine) -> None:
    assert engine.info.languages == ("en",)


@pytest.mark.parametrize("voice", [pytest.param("flite", marks=pytest.mark.flite), "hibari"])
async def test_a_question_is_understood_and_answered_aloud(
    engine: CascadeEngine, voice: str
) -> None:
    pcm = flite(QUESTION) if voice == "flite" else hibari(QUESTION, RATE)
    events = await converse(await engine.open(), pcm)
    assert error_rate(QUESTION, transcript(events)) < 0.15
    (ended,) = [e for e in events if isinstance(e, ReplyEnded)]
    assert ended.reason == "completed"
    assert ended.usage.output_tokens > 0
    sound = np.concatenate([e.pcm for e in events if isinstance(e, ReplyAudio)])
    words = [e for e in events if isinstance(e, ReplyText)]
    assert np.abs(sound[:2400]).max() > 0.01, "audible within its first tenth of a second"
    assert all(0 <= word.start <= word.end <= len(sound) for word in words)
    assert [word.start for word in words] == sorted(word.start for word in words)


@pytest.mark.recordings
async def test_a_recorded_person_is_understood(engine: CascadeEngine) -> None:
    clip = librivox()[0]
    events = await converse(await engine.open(), clip.pcm)
    assert error_rate(clip.text, transcript(events)) < 0.2


async def test_noise_is_no_turn(engine: CascadeEngine) -> None:
    session = await engine.open()
    session.order(Settings(id="s"))
    noise = np.random.default_rng(1).normal(0, 0.05, 3 * RATE).astype(np.float32)
    session.hear(noise)
    session.order(Close())
    assert not [event async for event in read(session) if isinstance(event, Onset)]


async def test_places_are_bounded_and_come_back(engine: CascadeEngine) -> None:
    sessions = [await engine.open(), await engine.open()]
    with pytest.raises(EngineBusy):
        await engine.open()
    for session in sessions:
        session.order(Close())
        assert [type(event) async for event in read(session)] == [Closed]
    session = await engine.open()
    assert engine.figures() == {"sessions": 1.0}
    await session.close()


async def test_an_engine_that_has_not_started_takes_nobody() -> None:
    with pytest.raises(EngineUnavailable):
        await CascadeEngine({}).open()
