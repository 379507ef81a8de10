"""Callers whose connection broke come back to the same session; others have their place if not."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from aiohttp import ClientSession

from engine.simulated.speech import spoken
from server.caller import HERE, Caller
from server.errors import ServiceError
from server.transport.webrtc import peer as peer_module
from tests import callers
from tests.conformance.strict import StrictClient
from tests.network.bare import hang
from tests.network.simulated import tone
from tests.service import Service, service

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

REALTIME, LIVE = "/v1/realtime", "/v1/live/sessions"
WORDS = " ".join(f"w{number:02d}" for number in range(40))
LONG = sum(len(word.pcm) for word in spoken(WORDS, 24_000)) / 24_000
"""Seconds that the simulated engine takes to say them."""
SCRIPTED = {"mode": "scripted", "script": [{"text": WORDS}]}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


class Program:
    """A client over WebSockets, one after the other; ``events`` are all that it was sent."""

    ws: ClientWebSocketResponse

    def __init__(self, now: Service, path: str = REALTIME) -> None:
        self.now, self.path = now, path
        self.events: list[dict[str, Any]] = []
        self.token = ""

    async def connect(self, **query: str) -> None:
        """Begins a session, or comes back to it."""
        query = {"resume": self.token, **query}
        self.ws = await self.now.caller.ws_connect(self.path, params=query)
        told = await self.ws.receive_json(timeout=15)
        assert told["type"] == "parley.resume", told
        self.token = told["token"]

    async def come_back(self) -> None:
        """Comes back and says what it has."""
        await self.connect(after=self.events[-1]["event_id"])

    def lose(self) -> None:
        """The connection breaks: no close frame, and nothing more arrives."""
        self.ws.get_extra_info("socket").shutdown(2)

    async def send(self, kind: str, **fields: Any) -> None:
        await self.ws.send_json({"type": kind, **fields})

    async def until(self, kind: str) -> dict[str, Any]:
        """The next event of that type."""
        while True:
            event: dict[str, Any] = await self.ws.receive_json(timeout=15)
            self.events.append(event)
            if event["type"] == kind:
                return event

    def said(self) -> list[str]:
        """The words of the replies, as they came."""
        kind = "response.output_audio_transcript.delta"
        return [event["delta"].strip() for event in self.events if event["type"] == kind]

    async def refused(self, **query: str) -> dict[str, Any]:
        """Comes back in vain: the error that says so."""
        ws = await self.now.caller.ws_connect(self.path, params={"resume": self.token, **query})
        event = await ws.receive_json(timeout=15)
        assert (await ws.receive(timeout=15)).data == 1008
        return dict(event["error"])


async def lost(now: Service, count: int = 1, transport: str = "websocket") -> None:
    """Waits until the server misses callers."""
    async with asyncio.timeout(15):
        while now.metrics.value("parley_callers_lost_total", transport=transport) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def free(now: Service) -> None:
    """Waits until no session runs."""
    async with asyncio.timeout(15):
        while now.manager.sessions:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_reply_goes_on_over_the_next_socket_and_every_event_comes_once() -> None:
    async with service(simulated=SCRIPTED) as now:
        program = Program(now)
        await program.connect()
        session = (await program.until("session.created"))["session"]
        await program.send("response.create")
        await program.until("response.output_audio.delta")
        program.lose()
        await lost(now)
        await program.come_back()
        assert (await program.until("session.created"))["session"] == session
        assert (await program.until("response.done"))["response"]["status"] == "completed"
        strict = StrictClient()
        for event in program.events:
            strict.see(json.dumps(event))
        strict.finish()
        assert " ".join(program.said()) == WORDS
        assert len(b"".join(strict.sound.values())) / 2 / 24_000 == pytest.approx(LONG)
        assert now.metrics.value("parley_sessions_resumed_total", transport="websocket") == 1


async def test_the_next_connection_takes_over_from_one_that_is_not_missed_yet() -> None:
    async with service(simulated=SCRIPTED) as now:
        program = Program(now)
        await program.connect()
        await program.until("conversation.created")
        old = program.ws
        await program.come_back()
        await program.until("conversation.created")
        assert (await old.receive(timeout=15)).type.name in ("CLOSE", "CLOSED")
        await program.send("response.create")
        await program.until("response.done")
        assert now.manager.sessions == 1
        await program.ws.close()
        await free(now)


async def test_whoever_says_goodbye_is_not_waited_for() -> None:
    async with service() as now:
        program = Program(now)
        await program.connect()
        await program.until("session.created")
        await program.ws.close()
        await free(now)
        error = await program.refused()
        assert (error["code"], error["param"]) == ("session_gone", "resume")


async def test_a_caller_who_stays_away_is_waited_for_so_long_and_told_on_coming_late() -> None:
    async with service(limits={"grace": 0.5}) as now:
        program = Program(now)
        await program.connect()
        program.lose()
        await lost(now)
        began = time.monotonic()
        await free(now)
        assert time.monotonic() - began > 0.4
        assert "waited for no longer" in (await program.refused())["message"]


async def test_a_newcomer_has_the_place_of_whoever_was_lost_first_who_is_told() -> None:
    async with service(capacity=2) as now:
        programs = [Program(now) for _ in range(4)]
        for number, program in enumerate(programs[:2]):
            await program.connect()
            program.lose()
            await lost(now, number + 1)
        await programs[2].connect()
        await programs[2].until("session.created")
        assert "needed for a new caller" in (await programs[0].refused())["message"]
        await programs[1].connect()
        await programs[1].until("session.created")
        await programs[3].connect()
        assert (await programs[3].until("error"))["error"]["code"] == "server_busy"
        assert now.manager.sessions == 2


async def test_a_token_is_good_for_one_return_with_the_same_key_in_the_same_way() -> None:
    async with service() as now:
        program = Program(now)
        await program.connect()
        first = program.token
        for live, leg in ((True, False), (False, True)):
            with pytest.raises(ServiceError, match="expected Realtime over websocket"):
                now.manager.back(first, HERE, live=live, leg=leg)
        with pytest.raises(ServiceError) as refused:
            now.manager.back(first, Caller(key="another"), live=False, leg=False)
        assert (refused.value.status, refused.value.code) == (404, "session_gone")
        await program.connect()
        await program.send("input_audio_buffer.clear")
        await program.until("input_audio_buffer.cleared")
        program.token = first
        assert "the token was used" in (await program.refused())["message"]


async def test_the_answer_to_an_upgrade_has_the_token() -> None:
    async with service() as now, now.caller.get(REALTIME, headers=UPGRADE) as answer:
        assert answer.status == 101
        assert answer.headers["Parley-Resume"].startswith("rtc_")


async def test_a_sideband_hears_on_while_the_caller_is_away() -> None:
    async with service(simulated=SCRIPTED) as now:
        program = Program(now)
        await program.connect()
        call = program.token.partition(".")[0]
        await program.until("session.created")
        sideband = await now.caller.ws_connect(REALTIME, params={"call_id": call})
        program.lose()
        await lost(now)
        await sideband.send_json({"type": "response.create"})
        async with asyncio.timeout(15):
            while (await sideband.receive_json())["type"] != "response.done":
                pass
        await program.come_back()
        assert (await program.until("response.done"))["response"]["status"] == "completed"


async def test_a_live_session_goes_on_without_being_started_again() -> None:
    async with service(simulated=SCRIPTED) as now:
        program = Program(now, LIVE)
        await program.connect()
        await program.send("session.start", session={"model": "gpt-live-1"})
        session = (await program.until("session.started"))["session"]["id"]
        await program.until("session.output_audio.delta")
        program.lose()
        await lost(now)
        await asyncio.sleep(1)
        await program.connect()
        assert (await program.until("session.started"))["session"]["id"] == session
        await program.send("session.close")
        usage = (await program.until("session.closed"))["usage"]
        assert usage["seconds"] >= 1


class Line:
    """How a caller over WebRTC comes: with the token of the answer before."""

    def __init__(self) -> None:
        self.token = ""

    async def post(self, url: str, offer: str) -> tuple[str, str]:
        """Posts an offer."""
        headers = {"Content-Type": "application/sdp"} | self.shown
        calls = url + "v1/realtime/calls"
        async with ClientSession() as web, web.post(calls, data=offer, headers=headers) as answer:
            assert answer.status == 201, await answer.text()
            self.token = answer.headers["Parley-Resume"]
            return await answer.text(), answer.headers["Location"]

    @property
    def shown(self) -> dict[str, str]:
        return {"Parley-Resume": self.token} if self.token else {}


@asynccontextmanager
async def calling(now: Service, line: Line) -> AsyncIterator[callers.Caller]:
    """A call, or its caller back."""
    async with callers.call(str(now.caller.make_url("/")), line.post) as caller:
        yield caller


async def test_a_call_goes_on_where_its_caller_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "_SILENCE", 2.0)
    async with service(simulated=SCRIPTED) as now:
        line = Line()
        async with calling(now, line) as caller:
            session = caller.strict.events[0]["session"]["id"]
            await caller.send("response.create")
            await caller.event("output_audio_buffer.started")
            await asyncio.sleep(1)
            hang(caller.peer)
            first = heard(caller)
            await lost(now, transport="webrtc")
            async with calling(now, line) as back:
                assert back.strict.events[0]["session"]["id"] == session
                await back.event("output_audio_buffer.stopped", 30)
                await asyncio.sleep(0.2)
                again = heard(back)
        await free(now)
    assert 0.5 < first < 2.5
    assert first + again == pytest.approx(LONG, abs=0.4)


def heard(caller: callers.Caller) -> float:
    """Seconds of sound that came on the track."""
    loud = [pcm for _, pcm in caller.heard if np.abs(pcm).max() > 0.01]
    return sum(map(len, loud)) / 48_000


async def test_a_call_takes_over_from_one_that_still_stands_and_hears_its_caller() -> None:
    async with service() as now:
        line = Line()
        async with calling(now, line) as caller, calling(now, line) as back:
            back.microphone.say(tone(back))
            await back.event("response.done")
            async with asyncio.timeout(15):
                await caller.closed
        await free(now)
