"""A Live client talks with a model that listens and speaks at once: a tiny random Moshi.

Its words are noise, and it says them when it likes; that they, and the sound, have their places is
what counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.contract import Samples
from tests.conformance.live_callers import LiveCaller, live, live_call, watching
from tests.conformance.test_duplex_realtime import moshi
from tests.serving import Server

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with moshi(tmp_path_factory.mktemp("server")) as running:
        yield running


def noise(rate: int) -> Samples:
    """A second of it."""
    return np.random.default_rng(0).normal(0, 0.1, rate).astype(np.float32)


async def words(caller: LiveCaller, count: int) -> None:
    """Waits for so many more pieces of what the model says."""
    for _ in range(count):
        await caller.event("session.output_transcript.delta", 30)


async def test_over_a_socket_it_is_heard_muted_refused_texts_and_closed(server: Server) -> None:
    format_ = {"type": "audio/pcm", "rate": 16_000}
    async with (
        live(server.url, talks=True, audio={"format": format_}) as caller,
        watching(server.url, caller.id) as sideband,
    ):
        caller.strict.keeps_time = False
        caller.microphone.say(noise(16_000))
        await words(caller, 4)
        await caller.send("session.input_audio.mute")
        await caller.event("session.input_audio.muted")
        await words(caller, 4)
        await sideband.send("session.input_audio.unmute")
        await sideband.event("session.input_audio.unmuted")
        for kind in ("instructions", "thinking", "commentary"):
            append = f"session.{kind}.append"
            error = await caller.refused(append, content="A word.", delegation_id=None)
            assert error["code"] == "unsupported"
        assert caller.pcm.any()
        assert sideband.pcm.any()


async def test_over_a_call_it_is_heard_with_words_and_hung_up(server: Server) -> None:
    async with live_call(server.url, dcid=3) as caller:
        caller.microphone.say(noise(48_000))
        await words(caller, 6)
    assert any(pcm.any() for _, pcm in caller.heard)
    assert caller.strict.events[-1]["reason"] == "close_requested"
