"""``parley talk`` with WAV files: answers, interruptions, and what is in the way of a call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.contract import Samples
from tests.network.simulated import ends, simulated, until
from tests.network.talking import CONNECTED, Talk
from tests.serving import Server
from tests.sounds import read_wav, write_wav

RATE = 24_000


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that sends every turn back, with a token."""
    log = tmp_path_factory.mktemp("echo") / "log"
    with simulated(log, "--token", "sesame") as running:
        yield running


@pytest.fixture
def call(tmp_path: Path) -> Path:
    """A file in which somebody speaks twice; three seconds go by between."""
    path = tmp_path / "call.wav"
    write_wav(path, np.concatenate([tone(5.0), silence(3.0), tone(1.0)]), RATE)
    return path


def tone(seconds: float) -> Samples:
    """What the simulated engine takes for speech."""
    at = np.arange(round(seconds * RATE))
    return np.asarray(0.3 * np.sin(2 * np.pi * 440 * at / RATE), np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE), np.float32)


def audible(pcm: Samples) -> list[tuple[float, float]]:
    """Where there is sound, in seconds; gaps of less than a tenth do not count."""
    at = np.flatnonzero(abs(pcm) > 0.01) / RATE
    pieces = np.split(at, np.flatnonzero(np.diff(at) > 0.1) + 1) if len(at) else []
    return [(float(piece[0]), float(piece[-1])) for piece in pieces]


def test_speech_stops_the_reply_and_the_server_is_told(
    echo: Server, call: Path, tmp_path: Path
) -> None:
    with Talk("--url", echo.url, "--file", call, "--save", tmp_path / "heard.wav") as talk:
        talk.line(r"\(stopped after \d\.\d s\)")
        assert talk.end() == (0, "")
    assert not [line for line in talk.lines if "server says" in line]
    (stopped,) = re.findall(r"stopped after (\d\.\d) s", "\n".join(talk.lines))
    first, second = audible(read_wav(tmp_path / "heard.wav", RATE))
    assert abs(first[1] - first[0] - float(stopped)) < 0.15
    assert second[0] > first[1]


async def test_an_interrupt_hangs_up_and_completes_the_file(echo: Server, tmp_path: Path) -> None:
    long, heard = tmp_path / "long.wav", tmp_path / "heard.wav"
    write_wav(long, tone(60), RATE)
    before = len(ends(echo))
    with Talk("--url", echo.url, "--file", long, "--save", heard) as talk:
        await asyncio.to_thread(talk.line, CONNECTED)
        await asyncio.sleep(1)
        talk.interrupt()
        assert await asyncio.to_thread(talk.end, 15) == (130, "")
    assert 0.2 < len(read_wav(heard, RATE)) / RATE < 30
    await until(lambda: ends(echo)[before:] == ["hangup"], 15)


@pytest.mark.parametrize("key", ["--key", "PARLEY_KEY", "wrong", "none"])
def test_a_key_opens_the_door_and_its_lack_is_told(echo: Server, call: Path, key: str) -> None:
    url = echo.url.partition("?")[0]
    flags = {"--key": ["--key", "sesame"], "wrong": ["--key", "abracadabra"]}.get(key, [])
    environment = {"PARLEY_KEY": "sesame"} if key == "PARLEY_KEY" else {}
    with Talk("--url", url, "--file", call, *flags, environment=environment) as talk:
        if key.isupper() or key == "--key":
            talk.line(CONNECTED)
        else:
            status, told = talk.end()
            origin = url.rstrip("/")
            assert status == 1
            assert told == (
                f"parley: {origin} asks for a key: give --key, or the whole URL that it printed\n"
            )


def test_a_busy_server_is_told(call: Path, tmp_path: Path) -> None:
    with (
        simulated(tmp_path / "log", capacity=1) as server,
        Talk("--url", server.url, "--file", call) as first,
    ):
        first.line(CONNECTED)
        with Talk("--url", server.url, "--file", call) as second:
            status, told = second.end()
        assert status == 1 and told.startswith("parley: ") and told.count("\n") == 1
        assert "call again later" in told
        server.kill()
        status, told = first.end()
        assert (status, told) == (1, "parley: the connection broke off\n")


def test_a_certificate_of_the_servers_own_needs_a_word(call: Path, tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    engine = ("--engine.name", "simulated")
    with Server(*engine, "--tls", "self-signed", log=tmp_path / "log", environment=state) as server:
        with Talk("--url", server.url, "--file", call) as talk:
            status, told = talk.end()
        assert status == 1 and "not trusted; see --ca and --insecure" in told
        (certificate,) = tmp_path.rglob("*cert*.pem")
        for flags in (["--insecure"], ["--ca", certificate]):
            with Talk("--url", server.url, "--file", call, *flags) as talk:
                talk.line(CONNECTED)
