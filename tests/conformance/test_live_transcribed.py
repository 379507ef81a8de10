"""GPT-Live with an engine that listens and speaks at once, and a recogniser beside it.

The engine is simulated and says what it hears, so the words of the caller and the sound that comes
back have places on one timeline that can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from engine.weights import Paths
from tests.conformance.live_callers import PCM, live, watching
from tests.serving import Server
from tests.sounds import error_rate, hibari

pytestmark = pytest.mark.weights

QUESTION = "What time does the library open on Saturday?"
LATE = 800
"""Milliseconds between a caller's word and its echo, and of silence that counts to a turn."""


@pytest.fixture(scope="module")
def server(weights: Paths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = json.dumps({"replies": "by_itself", "tick": 1280})
    engine = ("--engine.name", "simulated", "--engine.options", options)
    beside = ("--engine.transcriber.name", "cascade")
    with Server(*engine, *beside, log=tmp_path_factory.mktemp("server") / "log") as running:
        yield running


async def test_what_a_caller_says_is_written_where_its_echo_sounds(server: Server) -> None:
    speech = hibari(QUESTION, PCM["rate"])
    async with (
        live(server.url, talks=True) as caller,
        watching(server.url, caller.id) as sideband,
    ):
        await sideband.shown(1.0)
        caller.microphone.say(speech)
        await caller.microphone.spoken()
        while error_rate(QUESTION, sideband.strict.said("input")) > 0.2:
            await sideband.event("session.input_transcript.delta", 30)
        await sideband.shown(sideband.strict.words("input")[-1]["end_ms"] / 1000 + 1.0)
    sounding = np.flatnonzero(np.abs(sideband.pcm) > 0.02) * 1000 // PCM["rate"]
    words = sideband.strict.words("input")
    assert abs(words[0]["start_ms"] - sideband.strict.first - sounding[0]) < LATE
    assert abs(words[-1]["end_ms"] - sideband.strict.first - sounding[-1]) < 2 * LATE
    for word in sideband.strict.words("output"):
        assert word["start_ms"] - sideband.strict.first <= sounding[-1]
