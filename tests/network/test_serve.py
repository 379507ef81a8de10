"""The server as a process: its start, its address and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import ClientSession, CookieJar

from tests.serving import COMMAND

PROGRAM = """
import asyncio, sys
from engine.simulated import Simulated
from server import logs
from server.serve import CannotListen, serve
from server.settings import load

settings = load(sys.argv[1:])
logs.configure(settings.log_level, settings.log_format)
try:
    asyncio.run(serve(Simulated({}), settings, lambda line: print(line, flush=True)))
except CannotListen as problem:
    sys.exit(str(problem))
"""


@asynccontextmanager
async def started(*arguments: str, state: Path | None = None) -> AsyncIterator[Process]:
    environment = dict(os.environ, XDG_STATE_HOME=str(state))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, *arguments, stdout=PIPE, stderr=PIPE, env=environment
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def address(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(15):
        line = (await process.stdout.readline()).decode()
    assert line.startswith("Ready in "), line
    return line.split()[-1]


async def test_sigterm_lets_callers_finish_and_then_ends() -> None:
    async with started("--port", "0", "--limits.drain", "0.5") as process, ClientSession() as web:
        url = await address(process)
        assert (await web.get(url + "ready")).status == 200
        async with web.ws_connect(url + "v1/realtime") as ws:
            await ws.receive_json()
            process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            assert (await web.get(url + "ready")).status == 503
            assert not ws.closed
            async with asyncio.timeout(5):
                while not ws.closed:
                    await ws.receive()
            assert ws.close_code == 1001
        async with asyncio.timeout(5):
            assert await process.wait() == 0


async def test_sigint_ends_at_once() -> None:
    async with started("--port", "0") as process, ClientSession() as web:
        url = await address(process)
        async with web.ws_connect(url + "v1/realtime") as ws:
            await ws.receive_json()
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(5):
                assert await process.wait() == 0


async def test_a_token_is_part_of_the_address_and_of_no_log_line() -> None:
    jar = CookieJar(unsafe=True)  # keeps what an address sets, as browsers do
    async with (
        started("--port", "0", "--token", "canary") as process,
        ClientSession(cookie_jar=jar) as web,
    ):
        url = await address(process)
        assert url.endswith("/?token=canary")
        assert (await web.get(url)).status == 200
        process.send_signal(signal.SIGINT)
        _, told = await process.communicate()
        assert b"starting" in told
        assert b"canary" not in told


async def test_an_address_where_browsers_open_no_microphone_is_warned_of() -> None:
    async with started("--port", "0", "--host", "0.0.0.0") as process:
        assert "/?token=" in await address(process)
        process.send_signal(signal.SIGINT)
        _, told = await process.communicate()
        assert b"no microphone; see --tls self-signed" in told


async def test_keys_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text("{}")
    process = await asyncio.create_subprocess_exec(
        COMMAND, "serve", "--keys-file", str(path), "--engine.name", "simulated", stderr=PIPE
    )
    _, told = await process.communicate()
    assert process.returncode == 1
    assert f"parley: keys_file: {path} does not hold keys" in told.decode()


async def test_a_self_signed_server_speaks_https(tmp_path: Path) -> None:
    async with started("--port", "0", "--tls", "self-signed", state=tmp_path) as process:
        url = await address(process)
        assert url.startswith("https://127.0.0.1:")
        trust = ssl.create_default_context(cafile=tmp_path / "parley/tls/certificate.pem")
        async with ClientSession() as web:
            assert (await web.get(url + "health", ssl=trust)).status == 200


async def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    options = ("--tls-cert", str(missing), "--tls-key", str(missing))
    async with started("--port", "0", *options) as process:
        _, said = await process.communicate()
        assert process.returncode == 1
        assert f"tls_cert: cannot read {missing}" in said.decode()
        assert "--port" not in said.decode()


async def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        async with started("--port", port) as process:
            _, told = await process.communicate()
            assert process.returncode == 1
            assert f"cannot listen on 127.0.0.1:{port}" in told.decode()


async def test_media_has_the_port_of_http_by_default_and_one_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", port))
        async with started("--port", str(port)) as process:
            _, told = await process.communicate()
            assert process.returncode == 1
            expected = f"webrtc.port: cannot listen on 127.0.0.1:{port} (UDP): Address already in"
            assert expected in told.decode()
        async with started("--port", str(port), "--webrtc.port", "0") as process:
            assert f":{port}/" in await address(process)


async def test_an_interface_that_is_not_there_is_told() -> None:
    async with started("--port", "0", "--webrtc.addresses", "nowhere0") as process:
        _, told = await process.communicate()
        assert process.returncode == 1
        assert (
            "webrtc.addresses: this machine has no address or interface nowhere0" in told.decode()
        )
