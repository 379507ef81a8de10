"""``parley bench sockets``: what a session over a WebSocket costs, beside a bare echo.

Callers stream 20 ms frames in real time and get each one back: from ``parley serve`` with the
simulated engine (socket, session, process border, engine, and the same way back), and in the same
run from an aiohttp server that does nothing but return its messages. The CPU of all processes of
either is compared, and the time a frame takes there and back.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, web

from server.bench import machine

FRAME = 0.02
"""Seconds of sound per message."""
_SAMPLES = 480
_BYTES = 2 * _SAMPLES
WARM = 3.0
"""Seconds that are not counted."""
BUDGET = 3.0
"""CPU of the service, in that of the echo."""
_ENGINE = {"replies": "by_itself", "threshold": 0.0, "input_rate": 24_000}
"""Echoes all it hears, at the rate of the wire: what is measured is the way, not a resampler."""


class _Message(msgspec.Struct):
    """What is read of a message that came back: both servers' have their sound in one of these."""

    type: str
    audio: bytes = b""
    delta: bytes = b""


_decoder = msgspec.json.Decoder(_Message)


@dataclass(slots=True)
class Caller:
    """One caller: when each frame left, and how long it took to come back."""

    left: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    returned: int = 0
    """Bytes of sound that came back."""

    def came(self, data: str | bytes, now: float) -> None:
        """A message came back."""
        message = _decoder.decode(data)
        self.returned += len(message.audio) + len(message.delta)
        while (len(self.delays) + 1) * _BYTES <= self.returned:
            self.delays.append(now - self.left[len(self.delays)])


@dataclass(frozen=True, slots=True)
class Result:
    """What one server took: seconds of CPU per second, and delays in seconds."""

    name: str
    cores: float
    p50: float
    p99: float
    missing: int
    """Frames that did not come back."""
    late: float
    """Seconds, p99, that the callers themselves were late."""


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; returns 1 where the budget is missed."""
    parser = argparse.ArgumentParser(prog="parley bench sockets", description=__doc__)
    parser.add_argument("--sessions", type=int, default=50, help="callers at once")
    parser.add_argument("--seconds", type=float, default=15.0, help="seconds that are counted")
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args(arguments)
    machine.announce()
    before = machine.cpu_times()
    echo, parley = asyncio.run(_bench(given.sessions, given.seconds))
    for result in (echo, parley):
        print(
            f"{result.name}: {100 * result.cores:.0f} % of a core, there and back p50 "
            f"{1000 * result.p50:.1f} ms, p99 {1000 * result.p99:.1f} ms, "
            f"frames not back {result.missing}, callers late p99 {1000 * result.late:.1f} ms"
        )
    ratio = parley.cores / echo.cores
    print(
        f"{given.sessions} sessions: {ratio:.2f} times the CPU of the bare echo (budget "
        f"{BUDGET:g}), added delay p50 {1000 * (parley.p50 - echo.p50):.1f} ms, p99 "
        f"{1000 * (parley.p99 - echo.p99):.1f} ms"
    )
    machine.conclude(before)
    if given.json:
        given.json.write_bytes(msgspec.json.encode({"ratio": ratio, "results": [echo, parley]}))
    return 0 if ratio <= BUDGET and not parley.missing else 1


async def _bench(sessions: int, seconds: float) -> tuple[Result, Result]:
    async with machine.started("-m", "server.bench.sockets") as (url, pid):
        echo = await _measure("bare echo", url, pid, sessions, seconds)
    ours = machine.parley(json.dumps(_ENGINE), *machine.TAKES_ALL)
    async with machine.started(*ours) as (url, pid):
        parley = await _measure("parley", url, pid, sessions, seconds)
    return echo, parley


async def _measure(name: str, url: str, pid: int, sessions: int, seconds: float) -> Result:
    """Has ``sessions`` callers stream for ``seconds`` and watches the server's processes."""
    frames = round((WARM + seconds) / FRAME)
    callers = [Caller() for _ in range(sessions)]
    async with ClientSession() as client:
        sockets = [await client.ws_connect(f"{url}v1/realtime") for _ in callers]
        reading = [
            asyncio.create_task(_read(ws, caller))
            for ws, caller in zip(sockets, callers, strict=True)
        ]
        sending = asyncio.create_task(_send(sockets, callers, frames))
        await asyncio.sleep(WARM)
        began, used = time.monotonic(), _cpu(pid)
        late = await sending
        cores = (_cpu(pid) - used) / (time.monotonic() - began)
        await asyncio.sleep(0.5)
        for ws in sockets:
            await ws.close()
        await asyncio.gather(*reading)
    first = round(WARM / FRAME)
    delays = np.concatenate([caller.delays[first:] for caller in callers])
    return Result(
        name=name,
        cores=cores,
        p50=float(np.percentile(delays, 50)),
        p99=float(np.percentile(delays, 99)),
        missing=sum(frames - len(caller.delays) for caller in callers),
        late=float(np.percentile(late, 99)),
    )


async def _send(
    sockets: Sequence[ClientWebSocketResponse], callers: Sequence[Caller], frames: int
) -> list[float]:
    """Sends every caller's frames when they are due, the callers spread over the frame's time;
    returns how late each left.
    """
    tone = (3000 * np.sin(np.arange(_SAMPLES) / 9)).astype("<i2").tobytes()
    event = {"type": "input_audio_buffer.append", "audio": base64.b64encode(tone).decode()}
    message = json.dumps(event)
    late: list[float] = []
    began = time.monotonic()
    for number in range(frames):
        for index, (ws, caller) in enumerate(zip(sockets, callers, strict=True)):
            due = began + FRAME * (number + index / len(callers))
            if (wait := due - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            now = time.monotonic()
            late.append(now - due)
            caller.left.append(now)
            await ws.send_str(message)
    return late


async def _read(ws: ClientWebSocketResponse, caller: Caller) -> None:
    async for message in ws:
        if message.type is WSMsgType.TEXT:
            caller.came(message.data, time.monotonic())


def _cpu(pid: int) -> float:
    """Seconds of CPU that the process and its children have used."""
    return sum(map(machine.cpu, machine.family(pid)))


async def _echo() -> None:
    """The server that does nothing but return its messages."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(compress=False, decode_text=False)
        await ws.prepare(request)
        async for message in ws:
            await ws.send_frame(message.data, WSMsgType.TEXT)
        return ws

    app = web.Application()
    app.router.add_get("/v1/realtime", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_echo())
