"""Two media workers behind one front: what is found, what holds across them, what is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urljoin

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, ClientWSTimeout
from openai import AsyncOpenAI

from tests.callers import Caller, call, socket
from tests.conformance.live_callers import live, watching
from tests.network.simulated import free, simulated, talking, tone, until
from tests.serving import Server

TOLD = 2.0
"""Seconds until callers know that a process is gone, after it is found out."""
WATCHDOG = 2.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("workers") / "log"
    with simulated(log, "--media-workers", "2", "--limits.caller-starts", "inf") as running:
        yield running


def worker_of(caller: Caller) -> int:
    """The worker that has a caller's session."""
    session: str = caller.strict.events[0]["session"]["id"]
    return int(session.removeprefix("sess_w").split("_")[0])


def pids(server: Server, module: str) -> list[int]:
    """The processes of the server that run ``module``, oldest first."""
    tasks = Path(f"/proc/{server.pid}/task").iterdir()
    children = {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
    runs = [pid for pid in children if module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return sorted(runs)


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def all_ready(server: Server) -> None:
    """Waits until calls are brought to every worker."""
    async with ClientSession(server.url) as web, asyncio.timeout(60):
        while True:
            async with web.get("/health") as answer:
                workers = (await answer.json())["workers"]
            if [worker["busy"] for worker in workers] == ["", ""]:
                return
            await asyncio.sleep(0.1)


async def a_reply(caller: Caller) -> None:
    caller.microphone.say(tone(caller))
    assert (await caller.done())["status"] == "completed"


async def both(server: Server, stack: AsyncExitStack) -> dict[int, Caller]:
    """A caller with each worker."""
    callers = [await stack.enter_async_context(talking(server.url)) for _ in range(2)]
    found = {worker_of(caller): caller for caller in callers}
    assert sorted(found) == [0, 1]
    return found


async def test_sessions_go_to_the_worker_with_the_fewest_and_talk_there(server: Server) -> None:
    async with AsyncExitStack() as stack:
        callers = await both(server, stack)
        phone = await stack.enter_async_context(call(server.url))
        await asyncio.gather(*map(a_reply, (*callers.values(), phone)))
        for worker in "01":
            assert server.metric("parley_sessions_active", worker=worker) >= 1
    await free(server, 5.0)


async def test_a_call_is_reached_by_its_id_wherever_it_is(server: Server) -> None:
    async with call(server.url) as first, call(server.url) as second:
        assert worker_of(first) != worker_of(second)
        for caller in (first, second):
            call_id = caller.location.rpartition("/")[2]
            async with socket(server.url, query=f"call_id={call_id}") as sideband:
                await sideband.send("response.create", response={"instructions": "say hello"})
                await sideband.done()
                await caller.done()
            client = AsyncOpenAI(base_url=urljoin(server.url, "v1"), api_key="none")
            await client.realtime.calls.hangup(call_id)
            await client.close()
            async with asyncio.timeout(15):
                await caller.closed
    await free(server, 5.0)


async def test_a_live_session_is_attached_to_wherever_it_is(server: Server) -> None:
    for _ in range(2):
        async with live(server.url) as caller, watching(server.url, caller.id):
            pass
    await free(server, 5.0)


async def test_what_no_worker_knows_is_not_found(server: Server) -> None:
    async with ClientSession(server.url) as web:
        for call_id in ("rtc_w0_none", "rtc_w1_none", "rtc_w7_none", "rtc_none"):
            async with web.post(f"/v1/realtime/calls/{call_id}/hangup") as answer:
                assert answer.status == 404
                assert (await answer.json())["error"]["code"] == "call_not_found"
            async with web.get(
                f"/v1/realtime?call_id={call_id}",
                headers={
                    "Upgrade": "websocket",
                    "Connection": "Upgrade",
                    "Sec-WebSocket-Version": "13",
                    "Sec-WebSocket-Key": "cGFybGV5IHRlc3QgaXQ=",
                },
            ) as answer:
                assert answer.status == 404
                assert (await answer.json())["error"]["code"] == "call_not_found"


@pytest.mark.parametrize("method", ["HEAD", "POST", "GET"])
async def test_what_looks_like_an_upgrade_is_answered_whatever_else_it_says(
    server: Server, method: str
) -> None:
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Expect": "100-continue",
    }
    url = f"/v1/realtime/calls/rtc_w0_none/{'hangup' if method == 'POST' else 'x'}"
    async with (
        asyncio.timeout(15),
        ClientSession(server.url, headers=headers) as web,
        web.request(method, url) as answer,
    ):
        assert answer.status in (404, 405)


async def test_nobody_says_for_the_front_who_asks(server: Server) -> None:
    forged = {"X-Parley-Caller": "bm9ib2R5"}
    async with ClientSession(server.url, headers=forged) as web:
        async with web.ws_connect("/v1/realtime?model=gpt-realtime") as ws:
            assert (await ws.receive_json())["type"] == "session.created"
        async with web.post("/v1/realtime/calls/rtc_w0_none/hangup") as answer:
            assert answer.status == 404


async def test_what_follows_a_refused_upgrade_reaches_no_worker(server: Server) -> None:
    """A request behind it is the front's to judge, like any other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.split(":")[2][:-1]))
    writer.write(
        b"GET /v1/realtime?call_id=rtc_w0_none HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: cGFybGV5IHRlc3QgaXQ=\r\n\r\n"
        b"GET /control HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    )
    async with asyncio.timeout(15):
        answers = await reader.read(-1)
    writer.close()
    assert answers.count(b"HTTP/1.1 404") == 2
    assert b"call_not_found" in answers


async def test_a_client_that_floods_loses_nothing_and_its_neighbour_is_served(
    server: Server,
) -> None:
    async with (
        talking(server.url) as neighbour,
        ClientSession(server.url) as web,
        web.ws_connect("/v1/realtime?model=gpt-realtime", max_msg_size=0) as ws,
    ):
        for _ in range(200):
            await ws.send_json({"type": "x" * 100_000})
        await a_reply(neighbour)
        refusals = 0
        async with asyncio.timeout(60):
            while refusals < 200:
                refusals += (await ws.receive_json())["type"] == "error"
    await free(server, 15.0)


@pytest.mark.parametrize(
    ("number", "told"), [(signal.SIGKILL, TOLD), (signal.SIGSTOP, WATCHDOG + 2 * TOLD)]
)
async def test_a_lost_worker_ends_its_own_sessions_with_a_reason_and_no_others(
    server: Server, number: signal.Signals, told: float
) -> None:
    await all_ready(server)
    lost_before = server.metric("parley_faults_total", code="worker_lost")
    async with AsyncExitStack() as stack:
        callers = await both(server, stack)
        (victim,) = pids(server, "server.workers.worker\0001\0")
        os.kill(victim, number)
        async with asyncio.timeout(told):
            assert await callers[1].closed == 1011
        await a_reply(callers[0])
        assert not callers[0].closed.done()
        assert server.metric("parley_faults_total", code="worker_lost") == lost_before + 1
        lost = [line for line in server.log_lines() if line["event"] == "worker lost"]
        assert (lost[-1]["worker"], lost[-1]["sessions"]) == (1, 1)
    await until(lambda: pids(server, "server.workers.worker\0001\0") not in ([], [victim]), 30.0)
    await free(server, 10.0)
    async with AsyncExitStack() as stack:
        await all_ready(server)
        await both(server, stack)


async def test_a_lost_engine_is_told_by_every_worker_and_serves_again(server: Server) -> None:
    await all_ready(server)
    async with AsyncExitStack() as stack:
        callers = await both(server, stack)
        (engine,) = pids(server, "engine.remote.host")
        os.kill(engine, signal.SIGKILL)
        for caller in callers.values():
            assert (await caller.event("error", TOLD))["error"]["code"] == "engine_lost"
            async with asyncio.timeout(TOLD):
                assert await caller.closed == 1011
    await until(lambda: pids(server, "engine.remote.host") not in ([], [engine]), 30.0)
    await all_ready(server)
    await free(server, 5.0)
    async with AsyncExitStack() as stack:
        for caller in (await both(server, stack)).values():
            await a_reply(caller)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    flags = ("--media-workers", "2", "--trusted-proxies", "127.0.0.0/8", "--capacity", "3")
    limits = ("--limits.caller-sessions", "2", "--limits.caller-audio", "30")
    log = tmp_path_factory.mktemp("limited") / "log"
    with simulated(log, *flags, *limits, "--limits.drain", "1", "--limits.grace", "0") as running:
        yield running


@asynccontextmanager
async def calling_from(server: Server, address: str) -> AsyncIterator[ClientSession]:
    token = server.url.partition("token=")[2]
    headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": address}
    async with ClientSession(server.url, headers=headers) as web:
        yield web


async def first_of(ws: ClientWebSocketResponse) -> str:
    """What a new socket is told first: the code of an error, or the type of another event."""
    event = await ws.receive_json()
    return str(event.get("error", {}).get("code") or event["type"])


async def test_limits_hold_across_workers(limited: Server) -> None:
    async with AsyncExitStack() as stack:

        async def comes(address: str) -> tuple[ClientWebSocketResponse, str]:
            web = await stack.enter_async_context(calling_from(limited, address))
            ws = await stack.enter_async_context(web.ws_connect("/v1/realtime"))
            return ws, await first_of(ws)

        anna, bert, carl = "192.0.2.1", "192.0.2.2", "192.0.2.3"
        came = [await comes(each) for each in (anna, anna, anna, bert, carl)]
        assert [told for _, told in came] == [
            *("session.created", "session.created", "rate_limit_exceeded"),
            *("session.created", "server_busy"),
        ]
        workers = [limited.metric("parley_sessions_active", worker=worker) for worker in "01"]
        assert sorted(workers) == [1, 2]
        await came[0][0].close()
        async with asyncio.timeout(15):
            while (await comes(anna))[1] != "session.created":  # noqa: ASYNC110 - no event here
                await asyncio.sleep(0.1)
    await free(limited, 5.0)


async def test_sound_is_counted_across_workers(limited: Server) -> None:
    """Of 30 s a minute, two sessions with 25 s each are too much, wherever they are."""
    async with calling_from(limited, "192.0.2.9") as web, AsyncExitStack() as stack:
        for _ in range(2):
            hurried = ClientWSTimeout(ws_close=0.2)
            ws = await stack.enter_async_context(web.ws_connect("/v1/realtime", timeout=hurried))
            for _ in range(25):
                append = {"type": "input_audio_buffer.append", "audio": "A" * 64_000}
                await ws.send_json(append)
        async with asyncio.timeout(15):
            while True:  # until what was heard has been told in front
                async with web.ws_connect("/v1/realtime") as third:
                    if (told := await first_of(third)) != "session.created":
                        break
                await asyncio.sleep(0.1)
        assert told == "rate_limit_exceeded"
    await free(limited, 5.0)


async def test_a_server_with_workers_drains_and_leaves_nothing(limited: Server) -> None:
    processes = [*pids(limited, "server.workers"), *pids(limited, "engine.remote.host")]
    assert len(processes) == 3
    async with calling_from(limited, "192.0.2.7") as web, web.ws_connect("/v1/realtime") as ws:
        assert await first_of(ws) == "session.created"
        stopping = asyncio.create_task(asyncio.to_thread(limited.stop, 15.0))
        async with asyncio.timeout(15):
            async for _ in ws:
                pass
        assert ws.close_code == 1001
        assert await stopping == 0
    assert not any(map(lives, processes))


async def test_workers_go_with_their_front(tmp_path: Path) -> None:
    with simulated(tmp_path / "log", "--media-workers", "1") as server:
        processes = [*pids(server, "server.workers"), *pids(server, "engine.remote.host")]
        assert len(processes) == 2
        server.kill()
        await until(lambda: not any(map(lives, processes)), 15.0)


async def test_a_signal_to_all_processes_drains_as_one_to_the_front_does(tmp_path: Path) -> None:
    flags = ("--engine.name", "simulated", "--media-workers", "1")
    with Server(*flags, log=tmp_path / "log", under=("setsid",)) as server:
        async with talking(server.url) as caller:
            os.killpg(server.pid, signal.SIGTERM)
            await until(lambda: "draining" in logged(server), 15.0)
            await a_reply(caller)
            assert not caller.closed.done()
        await until(lambda: "stopped" in logged(server), 15.0)
        assert not {"worker lost", "engine lost"} & logged(server)


def logged(server: Server) -> set[str]:
    """The lines that the log has."""
    return {line["event"] for line in server.log_lines()}
