"""A socket's texts are taken at once where they can be, and never out of order."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientWebSocketResponse, WSMsgType, web
from aiohttp.test_utils import TestClient, TestServer

from server.bench.frames import GOODBYE, masked
from server.transport.direct import DirectSocket
from server.transport.together import Together

Handler = Callable[[web.Request], Awaitable[DirectSocket]]

TEXTS = [b"%d" % number for number in range(6)]
REFUSED = b"3"


@asynccontextmanager
async def connected(handle: Handler) -> AsyncIterator[ClientWebSocketResponse]:
    """A client's socket to a server of ``handle``."""
    app = web.Application()
    app.router.add_get("/", handle)
    async with TestClient(TestServer(app)) as client, client.ws_connect("/") as ws:
        yield ws


def pour(ws: ClientWebSocketResponse, data: bytes) -> None:
    """Writes frames in one piece."""
    connection = ws._conn
    assert connection is not None
    assert connection.transport is not None
    connection.transport.write(data)


def test_what_is_reached_of_aiohttps_socket_is_where_it_was() -> None:
    named = ("self", "request", "protocol", "writer")
    assert tuple(inspect.signature(web.WebSocketResponse._post_start).parameters) == named
    for name in ("_reader", "_parser", "_writer", "_ws_protocol"):
        assert hasattr(web.WebSocketResponse, name)


async def test_what_cannot_be_taken_at_once_is_not_overtaken() -> None:
    seen: list[tuple[str, bytes]] = []

    async def handle(request: web.Request) -> DirectSocket:
        ws = DirectSocket((), 1 << 20, 2, Together())
        await ws.prepare(request)

        def take(text: bytes) -> bool:
            if text == REFUSED:
                return False
            seen.append(("at once", text))
            return True

        ws.take = take
        async for message in ws:
            seen.append(("received", message.data))
        return ws

    async with connected(handle) as ws:
        for text in TEXTS:
            await ws.send_frame(text, WSMsgType.TEXT)
        await ws.close()
    assert [text for _, text in seen] == TEXTS
    assert [text for how, text in seen if how == "at once"][:3] == TEXTS[:3]
    assert ("received", REFUSED) in seen


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
async def test_a_text_of_any_length_is_framed(size: int) -> None:
    async def handle(request: web.Request) -> DirectSocket:
        ws = DirectSocket((), 1 << 20, 2, Together())
        await ws.prepare(request)
        assert ws.send_now(b"x" * size)
        await ws.receive()
        return ws

    async with connected(handle) as ws:
        assert await ws.receive_str(timeout=15) == "x" * size


async def test_one_client_is_taken_so_much_of_at_once_and_all_of_it_in_order() -> None:
    texts = [b"%d" % number for number in range(100)]
    turns: list[int] = []
    seen: list[bytes] = []

    async def handle(request: web.Request) -> DirectSocket:
        ws = DirectSocket((), 1 << 20, 2, Together())
        await ws.prepare(request)
        turn = 0

        def take(text: bytes) -> bool:
            turns.append(turn)
            seen.append(text)
            return True

        async def count() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        ws.take = take
        async for message in ws:
            seen.append(message.data)
        counting.cancel()
        return ws

    async with connected(handle) as ws:
        pour(ws, b"".join(masked(text) for text in texts))
        await ws.close()
    assert seen == texts
    assert max(Counter(turns).values()) <= 16


async def test_what_is_sent_before_a_goodbye_comes_before_it() -> None:
    async def handle(request: web.Request) -> DirectSocket:
        ws = DirectSocket((), 1 << 20, 2, Together())
        await ws.prepare(request)
        assert ws.send_now(b"one")
        assert ws.send_now(b"two")
        await ws.close()
        return ws

    async with connected(handle) as ws:
        assert [message.data async for message in ws] == ["one", "two"]


@pytest.mark.parametrize(
    ("end", "received"),
    [
        pytest.param(GOODBYE, [], id="goodbye"),
        pytest.param(b"\x83\x80\0\0\0\0", [], id="no such frame"),
        pytest.param(b"\x82\x81\0\0\0\0b" + GOODBYE, [b"b"], id="binary"),
    ],
)
async def test_what_waits_while_others_are_written_to_is_taken_before_what_follows_it(
    end: bytes, received: list[bytes]
) -> None:
    seen: list[bytes] = []
    served = asyncio.Event()

    async def handle(request: web.Request) -> DirectSocket:
        together = Together()
        ws = DirectSocket((), 1 << 20, 2, together)
        await ws.prepare(request)

        def take(text: bytes) -> bool:
            seen.append(text)
            return True

        async def write() -> None:
            while True:
                together.write(lambda: None)
                await asyncio.sleep(0)

        writing = asyncio.create_task(write())
        ws.take = take
        async for message in ws:
            if message.type is not WSMsgType.ERROR:
                seen.append(message.data)
        ws.take = None
        writing.cancel()
        served.set()
        return ws

    async with connected(handle) as ws:
        pour(ws, masked(b"one") + masked(b"two") + end)
        async with asyncio.timeout(15):
            await served.wait()
    assert seen == [b"one", b"two", *received]
