"""Delay does not stand: sound that came late once does not make all behind it come late.

A caller speaks through a relay to an engine that returns all that it hears, in one reply without
end, and hears it come back. For a moment something goes wrong, and two seconds later sound comes
back as soon as it did before.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from server.bench.webrtc.call import Call
from server.bench.webrtc.crowd import Crowd
from server.bench.webrtc.found import STRETCH, found
from server.bench.webrtc.speech import RATE, SECONDS, Speech, speech
from tests.browser.networks import behind_a_relay
from tests.conftest import Tell
from tests.network.relay import Relay
from tests.serving import Server

SOON = 2.0
"""Seconds after trouble."""
COUNTED = 0.8
"""Seconds of sound whose delay is taken."""
LATEST = 1.0
"""Seconds within which sound is looked for."""
ENGINES: dict[str, dict[str, int]] = {"unclocked": {}}


def lose(server: Server, relay: Relay) -> float:
    relay.lose(5)
    return 0.1


def hold(server: Server, relay: Relay) -> float:
    relay.hold(0.5)
    return 0.5


def stall(server: Server, relay: Relay) -> float:
    os.kill(server.pid, signal.SIGSTOP)
    threading.Timer(0.15, os.kill, (server.pid, signal.SIGCONT)).start()
    return 0.15


TROUBLES: dict[str, Callable[[Server, Relay], float]] = {
    "five packets lost": lose,
    "all packets held for 500 ms": hold,
    "a server that stands still for 150 ms": stall,
}


def noise() -> Speech:
    """What is said: sound in the band of speech, and nothing of it twice."""
    spectrum = np.fft.rfft(np.random.default_rng(1).normal(0, 0.1, 12 * RATE))
    hertz = np.fft.rfftfreq(12 * RATE, 1 / RATE)
    spectrum[(hertz < 250) | (hertz > 1_800)] = 0
    return speech(np.fft.irfft(spectrum).astype(np.float32), 1.0)


def delays(script: Speech, call: Call, since: float) -> list[float]:
    """How much later what was said from ``since`` on came back, in seconds: each fifth of one."""
    said = [frame for frame in call.said if frame.at >= since * 1e9]
    late = round(LATEST / SECONDS) + 1
    begins = range(0, round(COUNTED / SECONDS), STRETCH)
    heard = [found(script, said[at : at + STRETCH + late], call.came, LATEST) for at in begins]
    return [statistics.median(each.delays) for each in heard if each.alike]


def around(troubles: Sequence[str], engine: str, folder: Path) -> tuple[list[float], list[float]]:
    """The delays before ``troubles``, which follow each other, and soon after the last."""
    script = noise()
    options = {"replies": "by_itself", "threshold": 0, "input_rate": 24_000} | ENGINES[engine]
    flags = ("--engine.name", "simulated", "--engine.options", json.dumps(options))
    with behind_a_relay(folder / "log", *flags) as (server, relay):
        crowd = Crowd(server.url, script, 1)
        call = crowd.call()
        crowd.run(time.monotonic() + 0.5)
        call.counts, began = True, time.time()
        crowd.run(time.monotonic() + COUNTED)
        for trouble in troubles:
            over = time.time() + TROUBLES[trouble](server, relay)
            crowd.run(time.monotonic() + 0.6)
        crowd.run(time.monotonic() + SOON + COUNTED + LATEST)
        crowd.leave()
    return delays(script, call, began), delays(script, call, over + SOON)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("engine", ENGINES)
def test_soon_after_trouble_sound_comes_as_it_did_before(
    engine: str, tmp_path: Path, tell: Tell
) -> None:
    """A machine that does other work adds delay at times: one moment without it is enough."""
    before, later = around([*TROUBLES], engine, tmp_path)
    tell(f"{engine} echo: {told(before)}, soon after trouble {told(later)}")
    assert min(later) <= statistics.median(before) + SECONDS


@pytest.mark.full
@pytest.mark.timeout(120)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_soon_after_each_trouble_sound_comes_as_it_did_before(
    trouble: str, engine: str, tmp_path: Path, tell: Tell
) -> None:
    before, later = around([trouble], engine, tmp_path)
    tell(f"{engine} echo, {trouble}: {told(before)}, soon after {told(later)}")
    assert statistics.median(later) <= statistics.median(before) + SECONDS


def told(delays: Sequence[float]) -> str:
    return f"{1000 * min(delays):.0f} to {1000 * max(delays):.0f} ms"
