"""``parley doctor``, as an operator runs it: what it finds, and what it says to do."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import structlog

from engine.cascade import engine as cascade
from engine.cascade.chain import Chain
from engine.cascade.engine import CascadeEngine
from engine.cascade.reply import LOST
from engine.cascade.stages import StageError
from server.cli import main
from server.doctor import machine, network
from server.doctor.finding import Finding
from server.settings import load
from server.tls import self_signed
from tests.serving import Server
from tests.unit.cascade_fakes import FakeModel, Fakes

SIMULATED = ("--engine.name", "simulated", "--webrtc.addresses", "127.0.0.1", "--single-process")
LIMIT = 15.0
URL = "http://127.0.0.1:9/v1"

Doctor = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def own_logs() -> Iterator[None]:
    """What the command makes of this process's logs ends with it."""
    loggers = [logging.getLogger(name) for name in (None, "server", "engine")]
    before = [(logger, logger.handlers[:], logger.level) for logger in loggers]
    yield
    structlog.reset_defaults()
    for logger, handlers, level in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str], own_logs: None) -> Doctor:
    """The command: given flags, its exit status and lines."""

    def run(*flags: str) -> tuple[int, list[str]]:
        began = time.monotonic()
        status = main(["doctor", *SIMULATED, *flags])
        assert time.monotonic() - began < 2 * LIMIT
        *lines, last = capsys.readouterr().out.splitlines()
        problems, warnings = (
            sum(line.startswith(level) for line in lines) for level in ("problem", "warning")
        )
        assert last == f"problems: {problems}, warnings: {warnings}"
        return status, lines

    return run


def line(lines: list[str], level: str, what: str) -> str:
    """The one line at that level about ``what``."""
    (found,) = [line for line in lines if re.match(rf"{level} +{what} ", line)]
    return found


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who will not answer is not waited for as long."""
    monkeypatch.setattr(network, "_PATIENCE", 1.0)


@contextmanager
def silent() -> Iterator[int]:
    """A port that takes connections and packets and never says anything."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        udp.bind(tcp.getsockname())
        yield int(tcp.getsockname()[1])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def test_where_all_is_well_it_says_so(doctor: Doctor) -> None:
    port = free_port()
    status, lines = doctor("--port", str(port))
    assert status == 0
    assert f"127.0.0.1:{port} (TCP) is free" in line(lines, "ok", "HTTP port")
    assert "times as fast as it is heard" in line(lines, "ok", "speech engine")
    assert f"127.0.0.1:{port} (UDP) answers" in "\n".join(lines)
    whats = " ".join(lines)
    for what in ("https", "TURN server", "clock", "open files"):
        assert what in whats


def test_the_port_of_each_media_worker_is_tried(doctor: Doctor, impatient: None) -> None:
    with silent() as taken:
        workers = ("--media-workers", "2", "--webrtc.port", str(taken - 1))
        _, lines = doctor("--port", "0", "--no-single-process", *workers)
    problems = [line for line in lines if re.match("problem +UDP port", line)]
    assert any(f"127.0.0.1:{taken}" in problem for problem in problems)


def test_ports_that_are_taken_are_problems_with_their_settings(
    doctor: Doctor, impatient: None
) -> None:
    with silent() as taken:
        status, lines = doctor("--port", str(taken))
    assert status == 1
    assert "see --host and --port" in line(lines, "problem", "HTTP port")
    assert "webrtc.port: cannot listen on" in line(lines, "problem", "UDP port")


def test_a_server_that_runs_is_asked_by_its_own_ports(doctor: Doctor, tmp_path: Path) -> None:
    port = free_port()
    with Server("--port", str(port), *SIMULATED, log=tmp_path / "log") as server:
        assert urlsplit(server.url).port == port
        status, lines = doctor("--port", str(port))
    assert status == 0
    assert "a Parley answers" in line(lines, "ok", "HTTP port")
    assert f"127.0.0.1:{port} (UDP) answers" in "\n".join(lines)
    assert "says 'ready'" in line(lines, "ok", "speech engine")


def test_a_running_server_whose_udp_is_dropped_is_told(doctor: Doctor, tmp_path: Path) -> None:
    port = str(free_port())
    log = tmp_path / "log"
    with Server("--port", port, *SIMULATED, "--webrtc.port", "0", log=log), silent() as elsewhere:
        status, lines = doctor("--port", port, "--webrtc.port", str(elsewhere))
    assert status == 1
    assert "a firewall on this machine may drop UDP" in line(lines, "problem", "UDP port")


def test_a_public_address_that_does_not_answer_may_do_so_from_outside(doctor: Doctor) -> None:
    with silent() as outside:
        public = ("--webrtc.public-addresses", f"127.0.0.1:{outside}")
        status, lines = doctor("--port", "0", *public)
    assert status == 0
    told = line(lines, "warning", "public address")
    assert f"127.0.0.1:{outside} (UDP) does not answer from here" in told
    assert "forwarded as UDP" in told


def test_a_name_that_nobody_knows_is_a_problem(doctor: Doctor) -> None:
    status, lines = doctor("--port", "0", "--webrtc.public-addresses", "no.invalid")
    assert status == 1
    assert "webrtc.public_addresses: cannot find no.invalid" in line(lines, "problem", "UDP port")


@pytest.mark.parametrize("running", [False, True])
async def test_a_name_server_that_does_not_answer_is_waited_for_no_longer_than_others(
    running: bool, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(*arguments: object, **more: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", hangs)
    public = ("--webrtc.public-addresses", "voice.example.org", "--media-workers", "8")
    async with (
        asyncio.timeout(15),
        network.media(load(["--port", "0", *public]), running) as media,
    ):
        assert [each.problem for each in media] == [
            "webrtc.public_addresses: no name server answers"
        ]
    async with asyncio.timeout(15):
        assert await network._ask(("stun.example.org", 3478)) is None


def test_turn_and_stun_servers_that_do_not_answer_are_told_each(
    doctor: Doctor, impatient: None
) -> None:
    with silent() as port:
        urls = [f"turn:127.0.0.1:{port}?transport={kind}" for kind in ("udp", "tcp")]
        servers = [{"urls": [*urls, f"stun:127.0.0.1:{port}"], "secret": "canary"}]
        status, lines = doctor("--port", "0", "--webrtc.ice-servers", json.dumps(servers))
    assert status == 1
    told = "\n".join(line for line in lines if line.startswith("problem"))
    for url in urls:
        assert f"{url} cannot be used: no answer in time; does it run" in told
    assert f"stun:127.0.0.1:{port} does not answer" in told
    assert "canary" not in told


def test_a_turn_server_that_is_down_is_told_with_what_to_look_at(doctor: Doctor) -> None:
    url = f"turn:127.0.0.1:{free_port()}?transport=tcp"
    servers = json.dumps([{"urls": [url], "secret": "canary"}])
    _, lines = doctor("--port", "0", "--webrtc.ice-servers", servers)
    told = line(lines, "problem", "TURN server")
    assert f"{url} cannot be used: Connection refused; does it run" in told


def test_models_that_are_missing_are_told(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_CACHE", str(tmp_path))
    status, lines = doctor("--port", "0", "--engine.name", "cascade")
    assert status == 1
    assert "parley models fetch" in line(lines, "problem", "speech engine")


def test_an_apology_for_a_language_model_that_does_not_answer_is_a_problem(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def rested(engine: CascadeEngine, chain: Chain) -> None:
        """Goes without a rehearsal."""

    failing = Fakes(model=FakeModel(answer=[StageError("llm", "did not answer", "127.0.0.1:9")]))
    monkeypatch.setattr(cascade, "chain_of", lambda options: failing.chain)
    monkeypatch.setattr(CascadeEngine, "_rehearse", rested)
    llm = ("--engine.llm.url", URL)
    status, lines = doctor("--port", "0", "--engine.name", "cascade", *llm)
    assert failing.voice.spoken == [LOST]
    assert status == 1
    told = line(lines, "problem", "speech engine")
    assert "llm: did not answer; is it running" in told
    assert "--engine.llm.url" in told


def test_a_libopus_that_is_none_is_a_problem_and_ends_a_start(
    doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--port", "0", "--webrtc.sound.libopus", "/nope.so")
    why = "webrtc.sound.libopus: /nope.so is no libopus that loads"
    status, lines = doctor(*flags)
    assert status == 1
    assert why in line(lines, "problem", "Opus")
    assert main(["serve", *SIMULATED, *flags]) == 1
    assert f"parley: {why}" in capsys.readouterr().err


def test_settings_that_cannot_be_used_are_told_as_serve_tells_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "--prot", "1"]) == 2
    assert capsys.readouterr().err.startswith("parley: ")


def test_whoever_serves_others_needs_https(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path, [])
    own = ("--tls-cert", str(certificate), "--tls-key", str(key))
    missing = ("--tls-cert", str(tmp_path / "none"), "--tls-key", str(key))
    keyless = ("--tls-cert", str(certificate), "--tls-key", str(certificate))
    for flags, level in (
        ((), "ok"),
        (("--host", "0.0.0.0"), "warning"),
        (("--host", "0.0.0.0", "--tls", "self-signed"), "ok"),
        (("--host", "0.0.0.0", "--trusted-proxies", "10.0.0.0/8"), "ok"),
        (own, "ok"),
        (missing, "problem"),
        (keyless, "problem"),
    ):
        assert machine.secure_context(load(flags)).level == level, flags


@pytest.mark.parametrize(
    ("status", "level"),
    [
        ("ready", "ok"),
        ("degraded", "warning"),
        ("starting", "warning"),
        ("draining", "warning"),
        ("failed", "problem"),
        ("", "problem"),
    ],
)
def test_a_server_that_runs_is_as_well_as_it_says(status: str, level: str) -> None:
    found = machine._said(status)
    assert found.level == level
    assert ("takes no callers" in found.text) is (status not in ("ready", "degraded"))


@pytest.mark.parametrize(
    ("waited", "url", "level"),
    [(5, URL, "problem"), (1, URL, "warning"), (-math.inf, URL, "warning"), (5, "", "warning")],
)
def test_an_endpoint_that_stays_silent_is_a_problem(waited: float, url: str, level: str) -> None:
    found = machine._late(waited, load(["--engine.llm.url", url]).engine)
    assert found.level == level
    assert ("--engine.llm.url names" in found.text) is (level == "problem")


@pytest.mark.parametrize(("speed", "level"), [(0.9, "problem"), (1.5, "warning"), (3.0, "ok")])
def test_a_machine_that_speaks_too_slowly_is_told_what_helps(speed: float, level: str) -> None:
    found = machine._judged(0.5, speed)
    assert found.level == level
    assert ("--engine.llm.url" in found.text) is (level == "problem")


def test_many_sessions_want_many_files() -> None:
    assert machine.open_files(load(["--capacity", "10000000"])).level == "warning"


def test_a_finding_is_one_line() -> None:
    assert str(Finding("ok", "clock", "right")) == "ok       clock          right"
