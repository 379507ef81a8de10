"""An engine whose process has no time: what is being heard goes on, as steadily as before.

A reply plays that was made ahead. In the second half of it the engine's process does nothing else
for 150 ms, twice a second: with the engine in the server's own process, a packet of every
twenty-five would be as late as that.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np
import pytest

from server.bench.webrtc.crowd import Crowd
from server.bench.webrtc.found import found
from server.bench.webrtc.speech import RATE, speech
from tests.conftest import Tell
from tests.network.simulated import simulated

BUSY, EVERY = 0.15, 0.5
"""Seconds."""
CALM = 3.0
"""Seconds of the reply before, and as many after."""
BEGINS = 1.0
"""Seconds heard before what counts."""
MORE = 0.005
"""Seconds by which send jitter, at the 99th percentile, may be more."""
SILENCE = speech(np.zeros(10 * RATE, np.float32), 1.0)
GREETING = " ".join(["everything"] * 30)


def jitter(folder: Path) -> tuple[float, float]:
    """Send jitter p99 of a call: before its engine is busy, and while it is, in seconds."""
    times = np.arange(BEGINS + CALM, BEGINS + 2 * CALM, EVERY).tolist()
    faults = [{"kind": "busy", "after": at, "seconds": BUSY} for at in times]
    reply = ("--greeting", GREETING, "--webrtc.addresses", '["127.0.0.1"]')
    with simulated(folder / "log", *reply, faults=faults) as server:
        crowd = Crowd(server.url, SILENCE, 1)
        call = crowd.call()
        crowd.run(time.monotonic() + BEGINS)
        halves = []
        for _ in range(2):
            call.came.clear()
            crowd.talk(CALM)
            halves.append(found(SILENCE, [], call.came, 0.0).jitter)
        crowd.leave()
    calm, busy = halves
    assert min(len(calm), len(busy)) >= 0.5 * CALM * 50
    return float(np.percentile(calm, 99)), float(np.percentile(busy, 99))


@pytest.mark.full
@pytest.mark.timeout(120)
def test_a_busy_engine_does_not_stop_what_is_heard(tell: Tell, tmp_path: Path) -> None:
    calm, busy = jitter(tmp_path)
    tell(f"send jitter p99: {1000 * calm:.1f} ms, engine busy: {1000 * busy:.1f} ms")
    assert busy - calm < BUSY / 2


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_busy_engine_does_not_show_in_send_jitter(tell: Tell, tmp_path: Path) -> None:
    trials = [jitter(tmp_path) for _ in range(10)]
    calm, busy = (statistics.median(side) for side in zip(*trials, strict=True))
    tell(f"send jitter p99, 10 trials: {1000 * calm:.1f} ms, engine busy: {1000 * busy:.1f} ms")
    assert busy - calm <= MORE
