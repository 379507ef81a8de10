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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from server.bench.webrtc.crowd import Crowd
from server.bench.webrtc.found import STRETCH, found
from server.bench.webrtc.speech import RATE, SECONDS, Speech, speech
from tests.browser.networks import behind_a_relay
from tests.conftest import Tell
from tests.network.relay import Relay
from tests.serving import Server

SOON, WITHIN = 2.0, 15.0
"""Seconds after trouble: when, and by when on a machine that makes trouble of its own."""
COUNTED = 0.8
"""Seconds of sound whose delay is taken."""
LATEST = 0.6
"""Seconds within which sound is looked for."""
MORE = {"unclocked": SECONDS, "clocked": 2 * SECONDS}
"""Seconds of delay that chance makes of it: a frame of each clock on the way."""
ENGINES: dict[str, dict[str, int]] = {"unclocked": {}, "clocked": {"tick": RATE // 100}}


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


class Caller:
    """Someone who talks without a pause, and what is between them and the echo."""

    def __init__(self, script: Speech, server: Server, relay: Relay) -> None:
        self.server, self.relay = server, relay
        self._script = script
        self._crowd = Crowd(server.url, script, 1)
        self._call = self._crowd.call()

    def talk(self, seconds: float) -> None:
        self._crowd.run(time.monotonic() + seconds)

    def leave(self) -> None:
        self._crowd.leave()

    def delays(self) -> list[float]:
        """How much later what is said now comes back, in seconds: each fifth of one."""
        said, came = self._call.said, self._call.came
        said.clear()
        came.clear()
        self._call.counts = True
        self.talk(COUNTED + LATEST)
        self._call.counts = False
        late = round(LATEST / SECONDS) + 1
        begins = range(0, round(COUNTED / SECONDS), STRETCH)
        heard = [found(self._script, said[at : at + STRETCH + late], came, LATEST) for at in begins]
        return [statistics.median(each.delays) for each in heard if each.alike]


@contextmanager
def endless(engine: str, folder: Path) -> Iterator[Caller]:
    """Who talks to an echo without end."""
    script = noise()
    options = {"replies": "by_itself", "threshold": 0, "input_rate": 24_000} | ENGINES[engine]
    flags = ("--engine.name", "simulated", "--engine.options", json.dumps(options))
    with behind_a_relay(folder / "log", *flags) as (server, relay):
        caller = Caller(script, server, relay)
        caller.talk(0.5)
        yield caller
        caller.leave()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("engine", ENGINES)
def test_after_trouble_sound_comes_as_soon_as_before(
    engine: str, tmp_path: Path, tell: Tell
) -> None:
    with endless(engine, tmp_path) as caller:
        before = statistics.median(caller.delays())
        for trouble in TROUBLES.values():
            caller.talk(trouble(caller.server, caller.relay) + 0.2)
        caller.talk(SOON - 0.2)
        deadline = time.monotonic() + WITHIN
        while (later := min(caller.delays(), default=1.0)) > before + MORE[engine]:
            assert time.monotonic() < deadline, f"{later:.3f} s, and before {before:.3f} s"
    tell(f"{engine} echo: {1000 * before:.0f} ms, after trouble {1000 * later:.0f} ms")


@pytest.mark.full
@pytest.mark.timeout(120)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_two_seconds_after_trouble_sound_comes_as_soon_as_before(
    trouble: str, engine: str, tmp_path: Path, tell: Tell
) -> None:
    with endless(engine, tmp_path) as caller:
        before = statistics.median(caller.delays())
        caller.talk(TROUBLES[trouble](caller.server, caller.relay) + SOON)
        later = statistics.median(caller.delays())
    tell(f"{engine} echo: {1000 * before:.0f} ms; {trouble}: {1000 * later:.0f} ms")
    assert later <= before + MORE[engine]
