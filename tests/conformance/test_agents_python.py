"""``openai-agents`` for Python, whose validation of the server's events is the strictest of all."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

import numpy as np
import pytest
from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession

from engine.weights import Paths
from tests.callers import SOCKET_RATE, Microphone, stopped
from tests.conformance.scripted_brain import Call, Say, address, brain
from tests.conformance.strict import StrictClient
from tests.serving import Server
from tests.sounds import error_rate, hibari

pytestmark = pytest.mark.weights

MODEL = address()
QUESTION = "What time does the library open on Saturday?"
CLIENT_LOG = "openai.agents"
LOUDER = 3.0
"""Than a reply: so is who interrupts one, and the voice is the same here."""


@pytest.fixture(scope="module")
def server(weights: Paths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("server") / "log"
    with Server("--engine.llm.url", MODEL, "--engine.llm.model", "scripted", log=log) as running:
        yield running


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


@dataclass
class Kept:
    """A session and all that it told."""

    session: RealtimeSession
    strict: StrictClient = field(default_factory=StrictClient)
    happened: Counter[str] = field(default_factory=Counter)
    results: list[Any] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def keep(self) -> None:
        """Takes everything, to the end."""
        async for event in self.session:
            self.happened[event.type] += 1
            if event.type == "raw_model_event" and event.data.type == "raw_server_event":
                self.strict.see(json.dumps(event.data.data))
            elif event.type == "tool_end":
                self.results.append(event.output)
            self._more.set()

    async def until(self, kind: str, times: int, within: float = 30.0) -> None:
        """Waits until something has happened so often."""
        async with asyncio.timeout(within):
            while self.happened[kind] < times:
                self._more.clear()
                await self._more.wait()

    def said(self) -> list[tuple[str, str]]:
        """The words of the history, a message each: (role, text)."""
        return [
            (
                item.role,
                "".join(
                    getattr(part, "text", None) or getattr(part, "transcript", None) or ""
                    for part in item.content
                ),
            )
            for item in self.session._history
            if item.type == "message"
        ]


@asynccontextmanager
async def running(url: str) -> AsyncIterator[Kept]:
    """A session of the stock runner."""
    agent = RealtimeAgent(name="Test", instructions="Answer briefly.", tools=[get_weather])
    address = urljoin(url.replace("http", "ws", 1), "v1/realtime?model=gpt-realtime")
    made = await RealtimeRunner(agent).run(model_config={"url": address, "api_key": "none"})
    async with made as session:
        kept = Kept(session)
        keeping = asyncio.create_task(kept.keep())
        try:
            yield kept
        finally:
            await stopped([keeping])


async def speak(kept: Kept, text: str, replies: int) -> None:
    """Says ``text`` in real time, and is silent until so many replies have ended."""
    microphone = Microphone(SOCKET_RATE)
    microphone.say(LOUDER * hibari(text, SOCKET_RATE))
    async with asyncio.timeout(45):
        while kept.happened["agent_end"] < replies:
            pcm = (np.clip(await microphone.frame(), -1, 1) * 32767).round().astype("<i2")
            await kept.session.send_audio(pcm.tobytes())


async def test_it_speaks_hears_and_has_a_tool_called_and_finds_no_fault_with_any_event(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    ask = Call("get_weather", '{"city": "Paris"}')
    story = Say("Once upon a time there was a dog that lived by the sea. " * 6)
    answers = (Say("It opens at nine."), ask, Say("Take an umbrella."), story, Say("At ten."))
    with caplog.at_level(logging.WARNING, CLIENT_LOG):
        async with brain(MODEL, *answers) as model, running(server.url) as kept:
            await speak(kept, QUESTION, 1)
            await kept.session.send_message("How is the weather in Paris?")
            await kept.until("agent_end", 3)
            await kept.session.send_message("Tell me a story.")
            heard = kept.happened["audio"]
            await kept.until("audio", heard + 1)
            await speak(kept, QUESTION, 5)
            said = kept.said()
    kept.strict.finish()
    assert [line for line in caplog.record_tuples if line[0] == CLIENT_LOG] == []
    assert kept.happened["error"] == 0
    assert kept.results == ["It rains in Paris."]
    (result,) = [m for m in model.requests[2]["messages"] if m["role"] == "tool"]
    assert result["content"] == "It rains in Paris."
    assert kept.happened["audio_interrupted"] == 1
    assert [role for role, _ in said[:2]] == ["user", "assistant"]
    (_, question), (_, answer), *_ = said
    assert error_rate(QUESTION, question) <= 0.3
    assert answer == "It opens at nine."
