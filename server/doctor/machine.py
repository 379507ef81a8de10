"""What a server needs of the machine itself: https, a clock, files, and models that are fast."""

from __future__ import annotations

import asyncio
import ctypes
import datetime
import math
import os
import resource
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from cryptography import x509

from engine import contract, registry
from engine.contract import EngineError
from engine.reading import read
from server.doctor import network
from server.doctor.finding import Finding, Level
from server.tls import CertificateProblem, operators_context
from server.transport.addresses import is_loopback
from server.transport.webrtc.opus import LibraryMissing, library

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from engine.contract import Engine
    from server.engine_settings import EngineChoice
    from server.settings import ServerSettings

_PATIENCE = 11.0
"""Seconds for the engine to start and to answer."""
_SILENT = 3.0
"""Seconds after which an endpoint that has not answered keeps people from talking."""
_QUESTION = "What is the capital of France?"
_WORDS = 24
"""Tokens of the answer, at most."""
_FAST, _SLOW = 2.0, 1.2
"""Seconds of speech made in a second: enough for two callers; not enough for one."""
_FILES = 1024
"""Open files for the process and its first few hundred sessions."""
_CLOCK_ERROR = 5
"""What adjtimex(2) returns where nothing keeps the clock."""
_STATUSES: dict[str, tuple[Level, str]] = {
    "ready": ("ok", "takes callers; how well it answers is tried where none runs"),
    "degraded": ("warning", "takes callers, and lacks something that its log names"),
    "starting": ("warning", "takes no callers yet; ask again in a minute"),
    "draining": ("warning", "takes no callers any more: it is going down"),
}
"""What a running server may say of itself, and what that is worth."""
_SOON = datetime.timedelta(days=7)


def secure_context(settings: ServerSettings) -> Finding:
    """Whether browsers give a page that comes from here a microphone."""
    what = "https"
    if settings.tls_cert is not None and settings.tls_key is not None:
        try:
            operators_context(settings.tls_cert, settings.tls_key)
        except CertificateProblem as problem:
            return Finding("problem", what, str(problem))
        made = x509.load_pem_x509_certificate(settings.tls_cert.read_bytes())
        left = made.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
        if left < _SOON:
            text = f"the certificate ends on {made.not_valid_after_utc:%Y-%m-%d}; renew it"
            return Finding("problem" if left.total_seconds() < 0 else "warning", what, text)
        return Finding("ok", what, f"the certificate holds for another {left.days} days")
    if settings.tls != "off":
        return Finding("ok", what, "self-signed: browsers warn of it once, then open microphones")
    if is_loopback(settings.host):
        return Finding("ok", what, "not needed: only this machine is served")
    if settings.trusted_proxies:
        return Finding("ok", what, "left to the proxy in front of the server")
    text = "browsers on other machines open no microphone without it; see --tls self-signed"
    return Finding("warning", what, text)


def clock() -> Finding:
    """Whether somebody keeps the clock right: certificates and TURN logins hold for a time."""
    what = "clock"
    libc = ctypes.CDLL(None)
    ask = getattr(libc, "adjtimex", None) or getattr(libc, "ntp_adjtime", None)
    now = time.strftime("%F %T %Z")
    if ask is not None and ask(ctypes.create_string_buffer(1024)) == _CLOCK_ERROR:
        return Finding("warning", what, f"{now}, which no time service keeps; see `timedatectl`")
    return Finding("ok", what, now)


def opus(settings: ServerSettings) -> Finding:
    """Whether there is what codes the sound of calls."""
    try:
        library(settings.webrtc.sound.libopus)
    except LibraryMissing as problem:
        return Finding("problem", "Opus", str(problem))
    return Finding("ok", "Opus", "libopus is here")


def open_files(settings: ServerSettings) -> Finding:
    """Whether the process may open a file for each session's socket."""
    what = "open files"
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(_FILES, 2 * (settings.capacity or 0) + 256)
    if limit != resource.RLIM_INFINITY and limit < wanted:
        text = f"{limit} at once, {wanted} are wanted; see `ulimit -n` (up to {most} here)"
        return Finding("warning", what, text)
    return Finding("ok", what, f"{limit} at once")


async def engine(settings: ServerSettings, running: bool) -> Finding:
    """Whether the models are here, and this machine fast enough for them: it answers a question."""
    what = "speech engine"
    if running:
        return _said(await network.status(settings, "/ready"))
    chosen, begun = settings.engine, math.inf
    try:
        apart = not settings.single_process
        created = registry.create(chosen.name, chosen.plain(), own_process=apart)
        async with asyncio.timeout(_PATIENCE), _started(created) as made:
            begun = time.monotonic()
            if not made.info.can.text or made.info.replies == "by_itself":
                return Finding("ok", what, f"{chosen.name} starts")
            return _judged(*await _answer(made))
    except EngineError as problem:
        return Finding("problem", what, _mended(str(problem), chosen))
    except TimeoutError:
        return _late(time.monotonic() - begun, chosen)


def _said(status: str) -> Finding:
    """What a running server's ``/ready`` comes to."""
    level, text = _STATUSES.get(status, ("problem", "takes no callers; see its log"))
    return Finding(level, "speech engine", f"a server runs here and says {status!r}: it {text}")


def _endpoints(chosen: EngineChoice) -> list[str]:
    """The stages that an endpoint has."""
    return [name for name, stage in (("llm", chosen.llm), ("tts", chosen.tts)) if stage.url]


def _late(waited: float, chosen: EngineChoice) -> Finding:
    """What it means that time ran out ``waited`` seconds after a question (negative: before)."""
    what, endpoints = "speech engine", _endpoints(chosen)
    if endpoints and waited > _SILENT:
        urls = " and ".join(f"--engine.{stage}.url" for stage in endpoints)
        text = f"no answer for {waited:.0f} s; does what {urls} names answer?"
        return Finding("problem", what, text)
    text = f"{chosen.name} did not start and answer within {_PATIENCE:g} s; not measured"
    return Finding("warning", what, text)


def _mended(problem: str, chosen: EngineChoice) -> str:
    """``problem``, and which settings say where the endpoint is that it comes from."""
    for stage in _endpoints(chosen):
        if problem.startswith(f"{stage}: "):
            see = f"--engine.{stage}.url, --engine.{stage}.key and --engine.{stage}.model"
            return f"{problem}; is it running there, and does it take what {see} say?"
    return problem


def _judged(first: float, speed: float) -> Finding:
    told = f"speaks after {first:.1f} s, {speed:.1f} times as fast as it is heard"
    told += f" ({os.cpu_count()} cores)"
    what = "speech engine"
    if speed < _SLOW:
        text = f"{told}: too slow; see --engine.llm.url and --engine.tts.url, or use more cores"
        return Finding("problem", what, text)
    if speed < _FAST:
        return Finding("warning", what, f"{told}: enough for one caller, no more")
    return Finding("ok", what, told)


@asynccontextmanager
async def _started(engine: Engine) -> AsyncIterator[Engine]:
    try:
        await engine.start()
        yield engine
    finally:
        await engine.stop()


async def _answer(engine: Engine) -> tuple[float, float]:
    """Seconds to the first sound of an answer, and seconds of sound made in each one after.

    Raises:
        EngineError: there is none. Sound alone is no answer: what fails is apologised for aloud.
    """
    session = await engine.open()
    question = contract.Message(role="user", parts=(contract.Text(_QUESTION),))
    respond = contract.Respond("answer", 0, messages=(question,), max_tokens=_WORDS)
    began = time.monotonic()
    session.order(respond)
    first = made = 0.0
    async for event in read(session):
        if isinstance(event, contract.ReplyAudio):
            first = first or time.monotonic() - began
            made += len(event.pcm) / engine.info.output_rate
        elif isinstance(event, contract.Closed):
            raise EngineError(f"it broke off: {event.message or event.reason}")
        elif isinstance(event, contract.ReplyEnded):
            if event.reason == "failed":
                raise EngineError(event.message)
            break
    taken = time.monotonic() - began
    if not made:
        raise EngineError("it answered without a sound; the server's log may say why")
    return first, made / taken
