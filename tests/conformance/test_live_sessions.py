"""Sessions of GPT-Live over sockets and calls, their clock and their sound, judged strictly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import numpy as np
import pytest
from aiohttp import ClientSession

from engine.contract import Samples
from tests.conformance.live_callers import (
    PCM,
    LiveCaller,
    decoded,
    live,
    live_call,
    unstarted,
    watching,
)
from tests.conformance.live_strict import SLACK, USAGE
from tests.network.simulated import simulated, until
from tests.service import service
from tests.serving import Server

TICK = 0.08
"""Seconds, of the engine that keeps time."""
FORMATS = (
    {"type": "audio/pcm", "rate": 24_000},
    {"type": "audio/pcm", "rate": 16_000},
    {"type": "audio/pcmu", "rate": 8_000},
    {"type": "audio/pcma", "rate": 8_000},
)
LEVEL = 0.3


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose engine replies when told, as its script says."""
    script = [{"text": "one two three"}]
    with simulated(tmp_path_factory.mktemp("told") / "log", mode="scripted", script=script) as it:
        yield it


@pytest.fixture(scope="module")
def clocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose engine keeps time itself, and says what it hears."""
    log = tmp_path_factory.mktemp("clocked") / "log"
    with simulated(log, replies="by_itself", tick=1280) as running:
        yield running


def tone(seconds: float, rate: int = 24_000) -> Samples:
    """What the simulated engines take for speech."""
    at = np.arange(round(seconds * rate))
    return np.asarray(LEVEL * np.sin(2 * np.pi * 440 * at / rate), np.float32)


def hush(seconds: float, rate: int = 24_000) -> Samples:
    return np.zeros(round(seconds * rate), np.float32)


def loud(pcm: Samples, rate: int) -> tuple[float, float]:
    """Seconds of ``pcm`` that sound, and how loud they peak."""
    piece = rate // 100
    peaks = np.abs(pcm[: len(pcm) // piece * piece]).reshape(-1, piece).max(axis=1)
    sounding = peaks > LEVEL / 2
    return float(sounding.sum()) / 100, float(np.median(peaks[sounding], keepdims=True)[0])


@pytest.mark.parametrize("reports", [1, pytest.param(14, marks=pytest.mark.full)])
async def test_where_nobody_speaks_the_clock_goes_on_in_exact_silence(
    told: Server, clocked: Server, reports: int
) -> None:
    """P36."""

    async def wait(url: str) -> None:
        async with live(url) as caller, live_call(url) as other:
            async with watching(url, caller.id) as sideband:
                for report in range(1, reports + 1):
                    for each in (caller, other, sideband):
                        usage = await each.event("session.usage.updated", 20)
                        assert usage["usage"]["seconds"] == USAGE * report
                    assert caller.strict.elapsed < USAGE * report + 2 * SLACK
                assert sideband.strict.first + 1000 * sideband.strict.seconds > 4_800 * reports
                assert not sideband.pcm.any()
            assert not caller.pcm.any()
        for each in (caller, other):
            closed = each.strict.events[-1]
            assert closed["reason"] == "close_requested"
            assert closed["usage"]["seconds"] >= USAGE * reports
        assert not any(pcm.any() for _, pcm in other.heard)

    await asyncio.gather(wait(told.url), wait(clocked.url))


async def test_what_is_said_comes_back_whole_in_each_format(clocked: Server) -> None:
    async def round_trip(format_: dict[str, Any]) -> None:
        rate = format_["rate"]
        async with live(clocked.url, audio={"format": format_}) as caller:
            assert caller.strict.events[0]["session"]["audio"]["format"] == format_
            await caller.append(np.concatenate([hush(0.2, rate), tone(0.8, rate), hush(0.2, rate)]))
            await caller.shown(2.0)
        seconds, level = loud(caller.pcm, rate)
        assert abs(seconds - 0.8) <= 0.03
        assert abs(level - LEVEL) <= 0.02

    await asyncio.gather(*map(round_trip, FORMATS))


async def test_a_muted_caller_is_heard_as_silence_of_equal_length(clocked: Server) -> None:
    async with live(clocked.url) as caller, watching(clocked.url, caller.id) as sideband:
        await caller.append(tone(0.4))
        await caller.send("session.input_audio.mute")
        await caller.append(tone(0.48))
        await caller.send("session.input_audio.mute")
        for _ in range(2):
            await caller.event("session.input_audio.muted")
        await sideband.send("session.input_audio.unmute")
        await sideband.event("session.input_audio.unmuted")
        await caller.append(np.concatenate([tone(0.4), hush(0.3)]))
        await caller.shown(2.4)
        assert "session.input_audio.unmuted" not in caller.strict.types
    shown = decoded(bytes(sideband.strict.reflected), PCM)
    assert abs(loud(shown, 24_000)[0] - 1.28) <= 0.03
    assert abs(loud(caller.pcm, 24_000)[0] - 0.8) <= 0.04
    silent = np.diff(np.flatnonzero(caller.pcm)).max() / 24_000
    late = (silent - 0.48) % TICK
    assert silent > 0.45
    assert min(late, TICK - late) < 0.02, "other than by ticks that the engine skipped"


async def test_words_have_the_places_where_they_were_said(told: Server) -> None:
    begun = []
    async with live(told.url) as caller, watching(told.url, caller.id) as sideband:
        for turn in (1, 2):
            begun.append(sideband.strict.first + 1000 * sideband.strict.seconds)
            await caller.append(np.concatenate([tone(0.3), hush(0.4)]))
            for _ in range(3):
                await sideband.event("session.output_transcript.delta")
            assert caller.strict.said("output") == " ".join(["one two three"] * turn)
            await sideband.shown(2.0 * turn)
    assert caller.strict.said("input") == "turn 1 turn 2"
    for words, sent in zip(caller.strict.words("input")[::2], begun, strict=True):
        assert abs(words["start_ms"] - max(0, sent - 300)) < 500
        assert 500 <= words["end_ms"] - words["start_ms"] <= 900
    check_output(sideband)


def check_output(sideband: LiveCaller) -> None:
    """Each word sounds from where it begins to where it ends, and nothing else does."""
    pcm, first = sideband.pcm, sideband.strict.first
    for word in sideband.strict.words("output"):
        start, end = (24 * (word[at] - first) for at in ("start_ms", "end_ms"))
        late = 24 * sideband.strict.missed
        assert loud(pcm[start : end + late], 24_000)[0] >= (end - start) / 24_000 - 0.03
        pcm[start - 24 : end + late + 24] = 0.0
    assert not pcm.any()


async def test_a_sideband_steers_a_call_and_adds_no_sound(told: Server) -> None:
    async with live_call(told.url, dcid=7) as caller, watching(told.url, caller.id) as sideband:
        caller.microphone.say(tone(0.6, caller.microphone.rate))
        await sideband.event("session.output_transcript.delta", 20)
        error = await sideband.refused("session.input_audio.append", audio="AAAA")
        assert (error["code"], error["param"]) == ("permission_denied", "type")
        error = await sideband.refused("session.start", session={"model": "gpt-live-1"})
        assert error["code"] == "session_already_started"
        delegation = {"type": "client", "acknowledgement_delay_ms": 250}
        await sideband.send("session.update", session={"delegation": delegation})
        assert (await sideband.event("session.updated"))["session"]["delegation"] == delegation
        for kind in ("instructions", "thinking", "commentary"):
            await sideband.send(f"session.{kind}.append", content="A word.", delegation_id=None)
            await sideband.event(f"session.{kind}.appended")
        await until(lambda: "A word." in caller.strict.said("output"), 20)
        await sideband.send("session.close")
        assert (await sideband.event("session.closed"))["session"]["delegation"] == delegation
        sideband.strict.finish()
        assert await asyncio.wait_for(sideband.closed, 15) == 1000
    assert abs(loud(decoded(bytes(sideband.strict.reflected), PCM), 24_000)[0] - 0.6) <= 0.1
    seconds = sum(loud(pcm, caller.microphone.rate)[0] for _, pcm in caller.heard if pcm.any())
    assert seconds > 0.3


async def test_a_call_says_what_it_hears_on_a_channel_that_it_announced(clocked: Server) -> None:
    async with live_call(clocked.url) as caller, watching(clocked.url, caller.id) as sideband:
        assert "format" not in caller.strict.events[0]["session"]["audio"]
        error = await caller.refused("session.input_audio.append", audio="AAAA")
        assert error["code"] == "invalid_event"
        caller.microphone.say(tone(0.8, caller.microphone.rate))
        await caller.microphone.spoken()
        await caller.event("session.output_transcript.delta")
        await sideband.shown(sideband.strict.seconds + 0.8)
    said, said_level = loud(decoded(bytes(sideband.strict.reflected), PCM), 24_000)
    heard = np.concatenate([pcm for _, pcm in caller.heard])
    for pcm, rate in ((heard, caller.microphone.rate), (sideband.pcm, 24_000)):
        seconds, level = loud(pcm, rate)
        assert abs(seconds - 0.8) <= 0.1
        assert abs(seconds - said) <= 0.1  # of sound that came late, what waits is let go of
        assert abs(level - said_level) <= 0.02


async def test_a_channel_carries_what_its_session_allows(told: Server) -> None:
    started, closed = ({"type": f"session.{what}"} for what in ("started", "closed"))
    allowed = {
        "allowed_client_events": ["session.close", "session.thinking.append"],
        "allowed_server_events": [started, closed, {"type": "error"}],
    }
    async with (
        live_call(told.url, client={"data_channel": allowed}) as caller,
        watching(told.url, caller.id) as sideband,
    ):
        error = await caller.refused("session.input_audio.mute")
        assert error["code"] == "permission_denied"
        caller.microphone.say(tone(0.6, caller.microphone.rate))
        await sideband.event("session.output_transcript.delta", 20)
        await sideband.send("session.input_audio.mute")
        await sideband.event("session.input_audio.muted")
    assert caller.strict.types == ["session.started", "error", "session.closed"]


async def test_a_session_is_hung_up_by_its_id(told: Server) -> None:
    async with (
        ClientSession() as web,
        live(told.url) as caller,
        live_call(told.url) as other,
        watching(told.url, caller.id) as sideband,
    ):
        for session_id in (caller.id, other.id):
            hangup = urljoin(told.url, f"v1/live/sessions/{session_id}/hangup")
            async with web.post(hangup) as answer:
                assert answer.status == 200
            async with web.post(hangup) as answer:
                assert answer.status == 404
                assert (await answer.json())["error"]["code"] == "session_not_found"
        for each in (caller, other, sideband):
            assert (await each.event("session.closed"))["reason"] == "close_requested"


async def test_whoever_watches_is_told_how_the_client_left(told: Server) -> None:
    async with unstarted(told.url) as caller:
        await caller.start()
        async with watching(told.url, caller.id) as sideband:
            await caller.leave()
            assert (await sideband.event("session.closed"))["reason"] == "remote_hangup"
            assert await asyncio.wait_for(sideband.closed, 15) == 1000


async def test_who_gives_an_event_no_name_gets_none_back(told: Server) -> None:
    async with live(told.url) as caller:
        await caller.send("session.input_audio.mute", event_id=None)
        assert "client_event_id" not in await caller.event("session.input_audio.muted")
        error = await caller.refused("response.create", event_id=None)
        assert "client_event_id" not in error


async def test_a_caller_is_greeted_and_whoever_interrupts_is_told_only_what_was_heard() -> None:
    story = [{"text": " ".join(["lighthouse"] * 12)}]
    async with (
        service(greeting="Welcome here.", simulated={"mode": "scripted", "script": story}) as now,
        live(str(now.caller.make_url("/"))) as caller,
    ):
        await until(lambda: caller.strict.said("output") == "Welcome here.", 15)
        await caller.append(np.concatenate([tone(0.3), hush(0.4)]))
        await until(lambda: caller.strict.said("output").count("lighthouse") == 2, 15)
        await caller.append(tone(0.3))
        await caller.shown(caller.strict.seconds + 0.5)
        said = caller.strict.said("output")
        await caller.shown(caller.strict.seconds + 0.5)
        assert caller.strict.said("output") == said
        assert 2 <= said.count("lighthouse") <= 4
        assert not caller.pcm[-12_000:].any()
