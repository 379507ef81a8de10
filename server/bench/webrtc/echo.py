"""A stock aiortc server that returns what it hears, to measure beside ours: its own path whole."""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamTrack

from server.transport.webrtc import stock

_HOST = "127.0.0.1"


class Echo:
    """The server."""

    def __init__(self) -> None:
        self._connections: set[RTCPeerConnection] = set()

    async def answer(self, request: web.Request) -> web.Response:
        """Answers an offer."""
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._connections.add(connection)

        def on_track(track: MediaStreamTrack) -> None:
            connection.addTrack(track)

        def on_state() -> None:
            if connection.connectionState == "closed":
                self._connections.discard(connection)

        connection.on("track", on_track)
        connection.on("connectionstatechange", on_state)
        offer = await request.text()
        await connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        stock.bind(connection, [_HOST])
        await connection.setLocalDescription(await connection.createAnswer())
        sdp = connection.localDescription.sdp
        return web.Response(status=201, text=sdp, content_type="application/sdp")


async def _page(request: web.Request) -> web.Response:
    return web.Response(text="<!doctype html><title>echo</title>", content_type="text/html")


async def _main() -> None:
    app = web.Application()
    app.router.add_get("/", _page)
    app.router.add_post("/v1/realtime/calls", Echo().answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, _HOST, 0).start()
    print(f"http://{_HOST}:{runner.addresses[0][1]}/", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
