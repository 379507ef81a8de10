"""Nothing that is said, typed, instructed, called or answered is found where an operator looks.

A rare phrase takes every way through the service, at the most talkative level of the log, and so
do the faults that put such things into messages: then the log of both processes, the figures and
every file that was written are searched for its words.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

import pytest
from aiohttp import ClientSession

from engine.weights import Paths
from tests.callers import SOCKET_RATE, Caller, call, socket
from tests.conformance.live_callers import SESSIONS, LiveCaller, live, unstarted, watching
from tests.conformance.scripted_brain import Call, Refuse, Say, address, brain
from tests.network.simulated import ready
from tests.serving import Server
from tests.sounds import hibari

WORDS = (b"marmalade", b"saxophone")
PHRASE = "Tell me about the marmalade saxophone."
RECIPE = {"type": "function", "name": "recipe", "description": PHRASE, "parameters": {}}
TRANSCRIBED = "conversation.item.input_audio_transcription.completed"

OUTSIDE = f"""
import asyncio, logging, threading, warnings
from engine.contract import Respond
from engine.simulated import Simulated

class Session:
    def __init__(self, session):
        self._session = session
        self.hear, self.listen = session.hear, session.listen
        self.room = 32000

    def order(self, order):
        self._session.order(order)
        if isinstance(order, Respond):
            logging.getLogger("library").error("it says %s", {PHRASE!r})
            warnings.warn({PHRASE!r})
            threading.Thread(target=fail).start()
            asyncio.create_task(lost(), name={PHRASE!r})
            asyncio.get_running_loop().call_later(0.3, fail)
        if getattr(order, "instructions", None) == {PHRASE!r}:
            fail()

class Outside(Simulated):
    async def open(self):
        return Session(await super().open())

    async def stop(self):
        await super().stop()
        fail()

def fail():
    raise ValueError({PHRASE!r})

async def lost():
    fail()
"""


def assert_clean(server: Server, folder: Path, since: float) -> None:
    """Looks wherever an operator, or somebody who copies the disk, could."""
    with urlopen(urljoin(server.url, "metrics")) as answer:
        assert not holds_canary(answer.read())
    cache = Path(os.environ.get("PARLEY_CACHE", Path.home() / ".cache/parley"))
    assert server.stop() == 0
    for file in (*folder.rglob("*"), *cache.rglob("*")):
        if file.is_file() and file.stat().st_mtime >= since:
            assert not holds_canary(file.read_bytes()), file


def holds_canary(data: bytes) -> list[bytes]:
    """The lines in which one of the canary's words stands."""
    return [line for line in data.splitlines() if any(word in line.lower() for word in WORDS)]


def lines_of(server: Server, caller: Caller) -> tuple[int, int]:
    """How many lines of the caller's session the server wrote, and the engine's process."""
    session = caller.strict.events[0]["session"]["id"]
    names = [line["logger"] for line in server.log_lines() if line.get("session") == session]
    return sum(name.startswith("server.") for name in names), names.count("engine.remote.host")


async def offend(caller: Caller, server: Server) -> None:
    """Says the phrase where it is not expected."""
    for kind, fields in (
        (PHRASE, {}),
        ("session.update", {"session": {"type": "realtime", "tool_choice": PHRASE}}),
        ("conversation.item.create", {"item": {"type": PHRASE}}),
        ("conversation.item.delete", {"item_id": PHRASE}),
    ):
        await caller.send(kind, event_id=PHRASE, **fields)
        assert (await caller.event("error"))["error"]["event_id"] == PHRASE
    async with ClientSession() as web:
        for path in (PHRASE, f"v1/models/{PHRASE}", f"v1/realtime?model={PHRASE}"):
            assert (await web.get(urljoin(server.url, path))).status in (400, 404)
        for kind in ("application/sdp", PHRASE):
            calls = urljoin(server.url, f"v1/realtime/calls?dcid={PHRASE}")
            headers = {"Content-Type": kind}
            assert (await web.post(calls, data=PHRASE, headers=headers)).status in (400, 415)
        secrets = urljoin(server.url, "v1/realtime/client_secrets")
        for kind, status in (("realtime", 200), (PHRASE, 400)):
            session = {"type": kind, "instructions": PHRASE}
            assert (await web.post(secrets, json={"session": session})).status == status
        for name, key in (("X-Api-Key", PHRASE), ("Authorization", "Bearer ek_marmalade")):
            status = 401 if "ek_" in key else 200
            models = urljoin(server.url, "v1/models")
            assert (await web.get(models, headers={name: key})).status == status
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(server.url).port)
    writer.write(f"{PHRASE}\r\n{PHRASE}\r\n\r\n".encode())
    assert b" 400 " in await reader.readline()
    writer.close()


@pytest.mark.weights
async def test_what_is_said_is_nowhere_but_with_the_caller_and_the_model(
    weights: Paths, tmp_path: Path
) -> None:
    since, url = time.time(), address()
    answers = (
        Say(f"You said: {PHRASE}"),
        Call("recipe", json.dumps({"of": PHRASE})),
        Refuse(500, PHRASE),
        Call("recipe", f'{{"of": "{PHRASE}'),
        Say(PHRASE, then="die"),
        Refuse(200, f"data: {PHRASE}\n\n"),
    )
    flags = ("--engine.llm.url", url, "--engine.llm.model", "scripted", "--greeting", PHRASE)
    with served(tmp_path, *flags) as server:
        async with brain(url, *answers), socket(server.url, talks=True) as caller:
            assert "marmalade" in str((await caller.done())["output"])
            await caller.update(instructions=PHRASE, tools=[RECIPE])
            caller.microphone.say(hibari(PHRASE, SOCKET_RATE))
            heard = (await caller.event(TRANSCRIBED))["transcript"]
            assert holds_canary(heard.encode()), heard
            assert "marmalade" in str((await caller.done())["output"])
            caller.microphone.muted = True
            for status in ("completed", "failed", "failed", "failed", "failed"):
                await caller.write(PHRASE)
                await caller.send("response.create", response={"metadata": {"of": PHRASE}})
                response = await caller.done()
                assert response["status"] == status, response
                for use in response["output"]:
                    if use["type"] == "function_call":
                        assert "marmalade" in use["arguments"]
                        await caller.send("conversation.item.create", item=result(use["call_id"]))
            await offend(caller, server)
            async with call(server.url) as other:
                await other.write(PHRASE)
            os.kill(server.engine_pid, signal.SIGSEGV)
            await caller.event("error")
            await caller.closed
        ours, engines = lines_of(server, caller)
        assert ours >= 20
        assert engines >= 20
        await ready(server, 30)
        assert_clean(server, tmp_path, since)


def result(call_id: str) -> dict[str, str]:
    return {"type": "function_call_output", "call_id": call_id, "output": PHRASE}


def served(folder: Path, *flags: str, **environment: str) -> Server:
    """A server that writes whatever it writes into ``folder``."""
    places = {"XDG_STATE_HOME": str(folder), "TMPDIR": str(folder)}
    flags = (*flags, "--log-level", "debug")
    return Server(*flags, log=folder / "log", environment=places | environment)


async def offend_live(caller: LiveCaller, server: Server) -> None:
    """Says the phrase in GPT-Live where it is not expected."""
    for kind, fields in (
        (PHRASE, {}),
        ("session.update", {"session": {PHRASE: PHRASE}}),
        ("session.input_audio.append", {"audio": PHRASE}),
        ("session.commentary.append", {"content": PHRASE, "delegation_id": PHRASE}),
    ):
        await caller.refused(kind, **fields)
    async with unstarted(server.url) as other:
        for session in ({"model": PHRASE}, {"model": "parley", PHRASE: PHRASE}, PHRASE):
            await other.refused("session.start", session=session)
    async with ClientSession() as web:
        sessions = urljoin(server.url, SESSIONS)
        transport = {"type": "webrtc", "sdp": PHRASE}
        body = {"session": {"model": "parley", "instructions": PHRASE}, "transport": transport}
        assert (await web.post(sessions, json=body)).status == 400
        assert (await web.get(f"{sessions}/{PHRASE}/attach")).status == 404


@pytest.mark.weights
async def test_what_is_said_in_a_live_session_is_nowhere_else_either(
    weights: Paths, tmp_path: Path
) -> None:
    since, url = time.time(), address()
    told: dict[str, Any] = {"instructions": PHRASE, "safety_identifier": PHRASE}
    told["input"] = [{"role": "user", "content": [{"text": PHRASE}]}]
    flags = ("--engine.llm.url", url, "--engine.llm.model", "scripted")
    with served(tmp_path, *flags) as server:
        async with (
            brain(url, Call("delegate", json.dumps({"task": PHRASE}))),
            live(server.url, talks=True, **told) as caller,
            watching(server.url, caller.id) as sideband,
        ):
            for kind in ("instructions", "thinking", "commentary"):
                text = {"content": PHRASE, "delegation_id": None}
                await caller.send(f"session.{kind}.append", **text)
            await said(caller, "output")
            await offend_live(caller, server)
            caller.microphone.say(hibari(PHRASE, SOCKET_RATE))
            await said(caller, "input")
            await sideband.event("session.delegation.created", 30)
        ours = [line for line in server.log_lines() if line.get("session") == caller.id]
        assert len(ours) >= 20
        assert_clean(server, tmp_path, since)


async def said(caller: LiveCaller, direction: Literal["input", "output"]) -> None:
    """Waits until the phrase's words were told."""
    async with asyncio.timeout(60):
        while not holds_canary(caller.strict.said(direction).encode()):
            await caller.event(f"session.{direction}_transcript.delta", 60)


@pytest.mark.weights
async def test_a_voice_that_fails_does_not_tell_what_it_was_to_say(
    weights: Paths, tmp_path: Path
) -> None:
    since, url = time.time(), address()
    model = ("--engine.llm.url", url, "--engine.llm.model", "scripted")
    voice = ("--engine.tts.url", url, "--engine.tts.model", "scripted", "--engine.tts.voice", "any")
    async with brain(url, Say(PHRASE)) as scripted:
        with await asyncio.to_thread(served, tmp_path, *model, *voice) as server:
            scripted.mute = True
            async with socket(server.url) as caller:
                await caller.write(PHRASE)
                await caller.send("response.create")
                assert (await caller.done())["status"] == "failed"
                assert min(lines_of(server, caller)) >= 5
            assert_clean(server, tmp_path, since)


async def test_an_engine_that_raises_what_it_was_told_tells_nobody_else(tmp_path: Path) -> None:
    since, site, state = time.time(), tmp_path / "site", tmp_path / "state"
    (site / "outside-1.dist-info").mkdir(parents=True)
    state.mkdir()
    (site / "outside.py").write_text(OUTSIDE)
    (site / "outside-1.dist-info/METADATA").write_text("Name: outside\nVersion: 1\n")
    entry = "[parley.engines]\noutside = outside:Outside\n"
    (site / "outside-1.dist-info/entry_points.txt").write_text(entry)
    with served(state, "--engine.name", "outside", PYTHONPATH=str(site)) as server:
        async with socket(server.url) as caller:
            await caller.write(PHRASE)
            await caller.send("response.create")
            assert (await caller.done())["status"] == "completed"
            await asyncio.sleep(0.5)
            await caller.send(
                "session.update", session={"type": "realtime", "instructions": PHRASE}
            )
            assert (await caller.event("error"))["error"]["code"] == "engine_failed"
            await caller.closed
        assert_clean(server, state, since)
        told = {line["event"] for line in server.log_lines() if line["logger"].startswith("engine")}
        assert told >= {"thread failed", "unhandled in event loop", "session failed"}
        assert "engine did not stop" in told
        assert "library" in {line.get("library") for line in server.log_lines()}
