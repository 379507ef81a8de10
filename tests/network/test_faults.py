"""What goes wrong with engines, and who learns of it, by when: a real server and its processes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.callers import Caller, call
from tests.network.simulated import free, ready, simulated, talking, tone

TOLD = 2.0
"""Seconds until callers know that the engine is gone."""
WATCHDOG = 2.0
"""Seconds that an engine may stand still while its process lives; half a second of sound is let
wait before it counts."""

Connect = Callable[[str], AbstractAsyncContextManager[Caller]]


each_way_in = pytest.mark.parametrize("connect", [talking, call], ids=["websocket", "webrtc"])


async def reply_to_a_turn(caller: Caller) -> dict[str, Any]:
    caller.microphone.say(tone(caller))
    return await caller.done()


@each_way_in
async def test_a_killed_engine_is_told_within_two_seconds_and_the_next_call_works(
    connect: Connect, tmp_path: Path
) -> None:
    long = [{"text": "word " * 200}]
    with simulated(tmp_path / "log", mode="scripted", script=long) as server:
        async with connect(server.url) as caller:
            session = caller.strict.events[0]["session"]["id"]
            caller.microphone.say(tone(caller))
            await caller.event("response.output_audio_transcript.delta")
            os.kill(server.engine_pid, signal.SIGKILL)
            killed = time.monotonic()
            failed = await caller.done(TOLD)
            assert (failed["status"], failed["status_details"]["type"]) == ("failed", "failed")
            error = (await caller.event("error", TOLD))["error"]
            assert (error["type"], error["code"]) == ("server_error", "engine_lost")
            async with asyncio.timeout(TOLD):
                assert await caller.closed == (1011 if connect is talking else None)
            assert time.monotonic() - killed < TOLD
            await free(server, 1.0)
            caller.strict.finish()
        await ready(server)
        async with connect(server.url) as caller:
            caller.microphone.say(tone(caller))
            await caller.event("response.output_audio_transcript.delta")
        assert server.metric("parley_faults_total", code="engine_lost") == 1
        assert server.metric("parley_sessions_total", reason="engine_lost") == 1
        (fault,) = [line for line in server.log_lines() if line["event"] == "fault"]
        assert (fault["session"], fault["code"]) == (session, "engine_lost")


@each_way_in
async def test_an_engine_that_stands_still_is_found_out(connect: Connect, tmp_path: Path) -> None:
    stall = {"kind": "stall", "after": 1.0}
    with simulated(tmp_path / "log", faults=[stall]) as server:
        async with connect(server.url) as caller:
            began = time.monotonic()
            error = (await caller.event("error", 10))["error"]
            assert error["code"] == "engine_lost"
            assert time.monotonic() - began < 1.0 + 0.5 + WATCHDOG + 1.0
            async with asyncio.timeout(TOLD):
                await caller.closed
        await free(server, 1.0)
        await ready(server)
        async with connect(server.url):
            pass


async def test_a_crash_is_told_like_a_kill(tmp_path: Path) -> None:
    crash = {"kind": "crash", "turn": 1}
    with simulated(tmp_path / "log", faults=[crash]) as server:
        async with talking(server.url) as caller:
            caller.microphone.say(tone(caller))
            await caller.event("input_audio_buffer.speech_started")
            error = (await caller.event("error", 1.0 + TOLD))["error"]  # its turn ends meanwhile
            assert error["code"] == "engine_lost"
            async with asyncio.timeout(TOLD):
                assert await caller.closed == 1011
        await ready(server)


async def test_sound_that_is_not_a_number_fails_its_reply_and_nothing_else(tmp_path: Path) -> None:
    nan = {"kind": "nan", "turn": 1}
    with simulated(tmp_path / "log", faults=[nan]) as server:
        async with talking(server.url) as caller:
            caller.microphone.say(tone(caller))
            assert (await caller.event("error"))["error"]["code"] == "engine_nan"
            assert (await caller.done())["status"] == "failed"
            assert (await reply_to_a_turn(caller))["status"] == "completed"
            silent, spoken = caller.strict.sound.values()
            assert not silent
            assert np.abs(np.frombuffer(spoken, "<i2")).max() < 0.4 * 32768
        assert server.metric("parley_faults_total", code="engine_nan") == 1


@pytest.mark.full
async def test_a_caller_who_only_waits_is_told_that_nothing_comes(tmp_path: Path) -> None:
    """The process lives, and too little sound waits for anybody to see that it is not taken."""
    stall = {"kind": "stall", "after": 0.5}
    with simulated(tmp_path / "log", faults=[stall]) as server:
        async with talking(server.url) as caller:
            await caller.update(audio={"input": {"turn_detection": None}})
            await asyncio.sleep(0.5)
            caller.microphone.muted = True
            await caller.send("input_audio_buffer.commit")
            await caller.send("response.create")
            failed = await caller.done(25)
            assert failed["status_details"]["error"]["code"] == "reply_timeout"
        (line,) = [line for line in server.log_lines() if line["event"] == "reply failed"]
        assert line["code"] == "reply_timeout"
