"""``@openai/agents-realtime`` as it is: in Node over a WebSocket, in Chromium over WebRTC."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from playwright.async_api import Page, async_playwright

from engine.weights import Paths
from tests.browser.conftest import CHROMIUM, FLAGS, GRANTED
from tests.callers import SOCKET_RATE, TRACK_RATE
from tests.conformance import javascript
from tests.conformance.scripted_brain import Call, Say, address, brain
from tests.conformance.strict import StrictClient
from tests.serving import Server
from tests.sounds import error_rate, hibari, write_wav

pytestmark = pytest.mark.weights

MODEL = address()
QUESTION = "What time does the library open on Saturday?"
LOUDER = 3.0
"""Than a reply: so is who interrupts one, and the voice is the same here."""
ASK = Call("get_weather", '{"city": "Paris"}')
RAIN = Say("Take an umbrella with you.")
EVERYTHING = """({
    events: log.events, happened: log.happened, said: log.said(), untaken: [...log.untaken],
})"""
STORY = Say("Once upon a time there was a dog that lived by the sea. " * 6)


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """Where the client's page is, which is not where the server is."""
    javascript.install()
    handler = partial(_Quiet, directory=javascript.FOLDER)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
        serving = Thread(target=pages.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{pages.server_port}"
        pages.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def server(
    weights: Paths, origin: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    model = ("--engine.llm.url", MODEL, "--engine.llm.model", "scripted")
    log = tmp_path_factory.mktemp("server") / "log"
    with Server(*model, "--allowed-origins", origin, log=log) as running:
        yield running


async def test_in_node_it_speaks_calls_a_tool_asks_twice_at_once_and_interrupts(
    server: Server, tmp_path: Path
) -> None:
    speech = tmp_path / "speech.pcm"
    pcm = (LOUDER * hibari(QUESTION, SOCKET_RATE) * 32767).round().astype("<i2")
    speech.write_bytes(pcm.tobytes())
    url = server.url.replace("http", "ws", 1) + "v1/realtime?model=gpt-realtime"
    counting = (Say("One, two, three."), Say("Three, two, one."))
    answers = (Say("It opens at nine."), ASK, RAIN, *counting, STORY, STORY, Say("At ten."))
    async with brain(MODEL, *answers) as model:
        run = await javascript.run("agents.mjs", url, speech)
    strict, said = run.sources["session"], run.result["said"]
    strict.finish()
    happened = Counter(name for name, *_ in run.result["happened"])
    assert happened["error"] == 0
    assert run.result["untaken"] == []
    assert ["agent_tool_end", "It rains in Paris."] in run.result["happened"]
    (result,) = [m for m in model.requests[2]["messages"] if m["role"] == "tool"]
    assert result["content"] == "It rains in Paris."
    assert happened["audio_interrupted"] == 2
    check_history(said, ["It opens at nine.", RAIN.text, *(answer.text for answer in counting)])
    stories = [text for role, text in said if role == "assistant" and text.startswith("Once")]
    assert len(stories) == 2
    assert all(len(story) < len(STORY.text) for story in stories)


@pytest.mark.browser
async def test_in_a_page_of_another_origin_it_calls_hears_uses_a_tool_and_is_silenced(
    server: Server, origin: str, tmp_path: Path
) -> None:
    answers = (Say("It opens at nine."), ASK, RAIN, STORY)
    async with brain(MODEL, *answers), page(origin, tmp_path) as client:
        calls = f"{server.url}v1/realtime/calls"
        call_id, seconds = await client.evaluate("calls => connect(calls)", calls)
        assert call_id.startswith("rtc_")
        assert seconds < 5
        await until(client, "log.count('agent_end') === 1 && log.said().every(([, text]) => text)")
        await until(client, "log.came('output_audio_buffer.stopped') === 1")
        answered = await client.evaluate("heard()")
        await client.evaluate("log.session.sendMessage('How is the weather in Paris?')")
        await until(client, "log.came('output_audio_buffer.stopped') === 2")
        told = await client.evaluate("heard()")
        await client.evaluate("log.session.sendMessage('Tell me a long story.')")
        await until(client, "log.came('output_audio_buffer.started') === 3")
        await client.evaluate("log.session.interrupt()")
        await until(client, "log.came('output_audio_buffer.cleared') === 1")
        await until(client, "log.count('agent_end') === log.count('agent_start')")
        await client.wait_for_timeout(500)
        silenced = await client.evaluate("heard()")
        await client.wait_for_timeout(1_000)
        ended = await client.evaluate("heard()")
        result = await client.evaluate(EVERYTHING)
    strict = StrictClient(paced=True)
    for event in result["events"]:
        strict.see(json.dumps(event))
    strict.finish()
    check_sound(answered, told, silenced, ended)
    assert [name for name, *_ in result["happened"] if name == "error"] == []
    assert ["agent_tool_end", "It rains in Paris."] in result["happened"]
    assert result["untaken"] == []
    check_history(result["said"], ["It opens at nine.", RAIN.text])
    story = result["said"][-1][1]
    assert STORY.text.startswith(story.rstrip()) and len(story) < len(STORY.text)


@asynccontextmanager
async def page(origin: str, folder: Path) -> AsyncIterator[Page]:
    """The client's page in a Chromium whose microphone asks the question once, after a while."""
    second = np.zeros(TRACK_RATE, np.float32)
    sound = np.concatenate([second, second, hibari(QUESTION, TRACK_RATE)])
    write_wav(folder / "microphone.wav", sound, TRACK_RATE)
    microphone = f"--use-file-for-fake-audio-capture={folder / 'microphone.wav'}%noloop"
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*FLAGS, GRANTED, microphone]
        )
        opened = await chromium.new_page()
        await opened.goto(f"{origin}/agents.html")
        await opened.wait_for_function("() => globalThis.connect")
        yield opened
        await chromium.close()


async def until(client: Page, what: str) -> None:
    """Waits for an expression of the page's to be true."""
    await client.wait_for_function(f"() => {what}", timeout=30_000, polling=50)


def check_sound(*moments: dict[str, Any]) -> None:
    """Packets and sound came in the replies, and no sound after the last was silenced."""
    answered, told, silenced, ended = (moment["totalAudioEnergy"] for moment in moments)
    assert 0 < answered < told < silenced
    assert ended - silenced < 0.001 * (told - answered)
    assert 0 < moments[0]["bytesReceived"] < moments[1]["bytesReceived"]


def check_history(said: list[list[str]], answers: list[str]) -> None:
    """The history begins with the question as it was heard, and holds the answers in order."""
    role, question = said[0]
    assert role == "user"
    assert error_rate(QUESTION, question) <= 0.3
    told = [text for role, text in said if role == "assistant"]
    assert told[: len(answers)] == answers


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files, and logs no request."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
