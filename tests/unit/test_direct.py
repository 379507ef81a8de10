"""A socket's texts are taken at once where they can be, and never out of order."""

from __future__ import annotations

import inspect

import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestClient, TestServer

from server.transport.direct import DirectSocket

TEXTS = [b"%d" % number for number in range(6)]
REFUSED = b"3"


def test_what_is_reached_of_aiohttps_socket_is_where_it_was() -> None:
    named = ("self", "request", "protocol", "writer")
    assert tuple(inspect.signature(web.WebSocketResponse._post_start).parameters) == named
    for name in ("_reader", "_parser", "_writer", "_ws_protocol"):
        assert hasattr(web.WebSocketResponse, name)


async def test_what_cannot_be_taken_at_once_is_not_overtaken() -> None:
    seen: list[tuple[str, bytes]] = []

    async def handle(request: web.Request) -> DirectSocket:
        ws = DirectSocket((), most=1 << 20, timeout=2)
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

    app = web.Application()
    app.router.add_get("/", handle)
    async with TestClient(TestServer(app)) as client, client.ws_connect("/") as ws:
        for text in TEXTS:
            await ws.send_frame(text, WSMsgType.TEXT)
        await ws.close()
    assert [text for _, text in seen] == TEXTS
    assert [text for how, text in seen if how == "at once"][:3] == TEXTS[:3]
    assert ("received", REFUSED) in seen


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
async def test_a_text_of_any_length_is_framed(size: int) -> None:
    async def handle(request: web.Request) -> DirectSocket:
        ws = DirectSocket((), most=1 << 20, timeout=2)
        await ws.prepare(request)
        assert ws.send_now(b"x" * size)
        await ws.receive()
        return ws

    app = web.Application()
    app.router.add_get("/", handle)
    async with TestClient(TestServer(app)) as client, client.ws_connect("/") as ws:
        assert await ws.receive_str(timeout=15) == "x" * size
