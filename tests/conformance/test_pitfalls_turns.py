"""What a caller says, where other servers went wrong (docs/pitfalls.md)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.audio import pcm
from tests.callers import Caller, socket
from tests.conformance.bursts import (
    COMPLETED,
    append,
    eager,
    listen_by_hand,
    say,
    silence,
    tone,
)
from tests.network.simulated import simulated
from tests.serving import Server

DELTA = "conversation.item.input_audio_transcription.delta"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with simulated(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


async def refusal(caller: Caller, kind: str, **fields: Any) -> dict[str, Any]:
    await caller.send(kind, event_id="mine", **fields)
    error = dict((await caller.event("error"))["error"])
    assert error["event_id"] == "mine"
    return error


def positions(caller: Caller) -> list[int]:
    """Where speech began and ended, in milliseconds."""
    names = ("audio_start_ms", "audio_end_ms")
    return [event[name] for event in caller.strict.events for name in names if name in event]


async def test_a_commit_after_the_detector_closed_the_turn_makes_none_of_the_silence(
    server: Server,
) -> None:
    """P14."""
    async with socket(server.url) as caller:
        await say(caller)
        await caller.done()
        await append(caller, silence(0.5))
        error = await refusal(caller, "input_audio_buffer.commit")
        assert error["code"] == "input_audio_buffer_commit_empty"
        await say(caller)
        await caller.done()
        assert caller.strict.types.count("input_audio_buffer.committed") == 2


async def test_too_short_a_commit_tells_what_there_is_and_takes_nothing(server: Server) -> None:
    """P15."""
    async with socket(server.url) as caller:
        await listen_by_hand(caller)
        await append(caller, tone(0.05))
        error = await refusal(caller, "input_audio_buffer.commit")
        assert error["code"] == "input_audio_buffer_commit_empty"
        assert "50ms" in error["message"]
        await append(caller, tone(0.1))
        await caller.send("input_audio_buffer.commit")
        assert (await caller.event(COMPLETED))["usage"]["seconds"] == pytest.approx(0.15)


async def test_an_empty_append_moves_no_clock(server: Server) -> None:
    """P16."""
    async with socket(server.url) as caller:
        await caller.update(audio={"input": {"turn_detection": {"silence_duration_ms": 500}}})
        for sound in (silence(1.0), tone(0.3), tone(0.3), silence(0.7)):
            for _ in range(3):
                await caller.send("input_audio_buffer.append", audio="")
            await append(caller, sound)
        await caller.event("input_audio_buffer.committed")
        assert positions(caller) == pytest.approx([700, 2100], abs=20)
        assert caller.strict.types.count("input_audio_buffer.committed") == 1


@pytest.mark.parametrize("interrupts", [True, False])
async def test_every_onset_is_told_whether_or_not_there_is_something_to_interrupt(
    server: Server, interrupts: bool
) -> None:
    """P20: a client that plays has to hear of it long after the response was made."""
    async with socket(server.url) as caller:
        detection = {"interrupt_response": interrupts}
        await caller.update(audio={"input": {"turn_detection": detection}})
        for _ in range(3):
            await say(caller)
            await caller.event("input_audio_buffer.speech_started")
            await caller.event("input_audio_buffer.committed")


async def test_two_turns_before_the_first_reply_each_get_their_own_transcript(
    server: Server,
) -> None:
    """P30: and swapped ids, an ``item_id`` that is the item before and the other way around."""
    async with socket(server.url) as caller:
        await say(caller)
        await say(caller)
        spoken, transcripts = [], {}
        for _ in range(2):
            spoken.append((await caller.event("input_audio_buffer.speech_started"))["item_id"])
            heard = await caller.event(COMPLETED)
            transcripts[heard["item_id"]] = heard["transcript"]
        assert transcripts == {spoken[0]: "turn 1", spoken[1]: "turn 2"}
        last, committed = None, []
        for event in caller.strict.events:
            if event["type"] == "input_audio_buffer.committed":
                committed.append(event["item_id"])
                assert event["previous_item_id"] == last
            if event["type"] == "conversation.item.added":
                assert event["previous_item_id"] == last
                last = event["item"]["id"]
        assert committed == spoken


async def test_what_is_sent_before_the_session_was_announced_is_heard(server: Server) -> None:
    """P5, and the first-append race: an announced session whose first sound was lost."""
    async with eager(server.url) as caller:
        session = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
        await caller.send("session.update", session=session)
        await append(caller, tone(1.25))
        await caller.send("input_audio_buffer.commit")
        await caller.send("response.create")
        assert (await caller.event("session.created"))["session"]["id"]
        await caller.event("session.updated")
        await caller.event("input_audio_buffer.committed")
        assert (await caller.event(COMPLETED))["usage"]["seconds"] == 1.25
        (item,) = (await caller.done())["output"]
        assert item["content"][0]["transcript"] == "turn 1"
    async with eager(server.url) as caller:
        await say(caller)
        await caller.event("input_audio_buffer.committed")
        assert positions(caller)[0] == 0


@pytest.mark.parametrize(
    ("format", "rate", "width"),
    [({"type": "audio/pcm", "rate": 24000}, 24_000, 2), ({"type": "audio/pcma"}, 8_000, 1)],
)
async def test_sound_is_read_at_the_rate_of_its_format(
    server: Server, format: dict[str, Any], rate: int, width: int
) -> None:
    """P31: and audio read at the model's rate. A session shows what it hears."""
    async with socket(server.url) as caller:
        session = await caller.update(audio={"input": {"format": format, "turn_detection": None}})
        assert session["audio"]["input"]["format"] == format
        audio = base64.b64encode(b"\xd5" * rate * width).decode()
        await caller.send("input_audio_buffer.append", audio=audio)
        await caller.send("input_audio_buffer.commit")
        assert (await caller.event(COMPLETED))["usage"]["seconds"] == pytest.approx(1.0)


async def test_a_rate_the_api_does_not_have_is_refused_by_name(server: Server) -> None:
    """P31: it is never read as something else."""
    async with socket(server.url) as caller:
        audio = {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}
        error = await refusal(
            caller, "session.update", session={"type": "realtime", "audio": audio}
        )
        assert error["param"] == "session.audio.input.format.rate"
        created = caller.strict.events[0]["session"]
        assert (await caller.update())["audio"] == created["audio"]


async def test_odd_bytes_and_bad_base64_are_refused_by_name_and_shift_nothing(
    server: Server,
) -> None:
    """The odd last byte, silently dropped, that made noise of all that followed."""
    async with socket(server.url) as caller:
        await caller.update()
        sound = tone(0.5)
        await append(caller, sound)
        for audio in (base64.b64encode(sound[:481]).decode(), "no base64!", "AAA", 7, None):
            error = await refusal(caller, "input_audio_buffer.append", audio=audio)
            assert (error["code"], error["param"]) == ("invalid_value", "audio")
        error = await refusal(caller, "input_audio_buffer.append")
        assert (error["code"], error["param"]) == ("missing_required_parameter", "audio")
        await append(caller, sound + silence(0.7))
        (item,) = (await caller.done())["output"]
        assert positions(caller) == pytest.approx([0, 1500], abs=20)
        echo = pcm.from_pcm16(caller.strict.sound[item["id"]])
        assert np.abs(echo).max() == pytest.approx(8000 / 32768, rel=0.1)


async def test_a_transcript_is_completed_after_its_last_delta_and_says_the_same(
    tmp_path: Path,
) -> None:
    """An early ``completed``, before the recogniser had told all it knew."""
    words = "every good boy does fine and so do all the others here"
    with simulated(tmp_path / "log", transcripts=[words]) as server:
        async with socket(server.url) as caller:
            await say(caller)
            completed = await caller.event(COMPLETED)
            await caller.done()
            kinds = [kind for kind in caller.strict.types if "transcription" in kind]
            assert kinds == [*(len(words.split()) * [DELTA]), COMPLETED]
            said = [event["delta"] for event in caller.strict.events if event["type"] == DELTA]
            assert "".join(said) == completed["transcript"] == words


async def test_nothing_said_is_no_empty_transcript(tmp_path: Path) -> None:
    """The trailing empty ``completed``."""
    with simulated(tmp_path / "log", transcripts=["", "then words"]) as server:
        async with socket(server.url) as caller:
            await say(caller)
            await caller.event("input_audio_buffer.cleared")
            await say(caller)
            assert (await caller.event(COMPLETED))["transcript"] == "then words"
            assert caller.strict.types.count("input_audio_buffer.committed") == 1


async def test_a_session_that_waits_keeps_nobody_else_waiting(server: Server) -> None:
    """The waiting session that froze all others: one amid a turn, one silent, one that floods."""
    async with socket(server.url) as waiting, socket(server.url), socket(server.url) as flooding:
        await append(waiting, tone(0.6))
        await waiting.event("input_audio_buffer.speech_started")
        flood = asyncio.create_task(append(flooding, silence(120)))
        async with socket(server.url) as caller:
            await say(caller)
            assert (await caller.done())["status"] == "completed"
        await flood
        await append(waiting, silence(0.7))
        assert (await waiting.done())["status"] == "completed"
