"""From the mouth to the ear: what a call adds between a browser's microphone and its reply.

Chromium's fake microphone clicks, the engine returns what it hears the moment it hears it, and one
recorder in the page hears both tracks. Either each click is a reply, which leaves when its first
sample is there, or there is one reply without end: then what was late once could be late for good.
A stock aiortc server that returns what it hears stands beside ours in the same run. Sound cards and
the air are left out of both.
"""

from __future__ import annotations

import base64
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from engine.contract import Samples
from tests.browser.caller import HERE
from tests.browser.conftest import GRANTED, Chromium, StolenTime
from tests.browser.recording import RATE, Recording
from tests.conftest import Tell
from tests.network.simulated import simulated
from tests.sounds import write_wav

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

BUDGET = {20: 0.45, 10: 0.38}
"""Of stock aiortc's median, by the milliseconds of a packet."""
CLICK = 0.6
"""Amplitude; a fifth of it is heard as one."""
SPACING = 0.5
"""Seconds between clicks, a fifth more or less: more than any server's delay."""
SETTLING = 2.0
"""Seconds of a call that are not counted."""
CALLS = "v1/realtime/calls?model=gpt-realtime"
ECHO = {"replies": "by_itself", "silence_ms": 100, "input_rate": 24_000}
REPLIES = {"a reply each": 0.05, "one reply": 0.0}
"""The amplitude from which the engine returns what it hears."""


def clicks(count: int) -> Samples:
    """What the microphone hears: so many clicks, in a room that is never quite silent."""
    random = np.random.default_rng(7)
    gaps = random.uniform(0.8, 1.2, count) * SPACING
    at = np.arange(RATE // 100)
    click = CLICK * np.sin(2 * np.pi * 1500 * at / RATE) * np.hanning(len(at)) ** 0.25
    sound = random.normal(0, 5e-4, round((sum(gaps) + SETTLING + 1) * RATE))
    for begin in (np.cumsum(gaps) + SETTLING) * RATE:
        sound[round(begin) : round(begin) + len(click)] += click
    return sound.astype(np.float32)


def delays(recording: Recording) -> list[float]:
    """Milliseconds from each click of the microphone to that of the reply."""
    mouth, ear = (_begins(side) for side in (recording.local, recording.remote))
    heard = [ear[ear >= click] for click in mouth[mouth >= SETTLING * RATE]]
    return [
        float(after[0] - click) * 1000 / RATE
        for click, after in zip(mouth[mouth >= SETTLING * RATE], heard, strict=True)
        if len(after) and after[0] - click < SPACING * RATE * 0.8
    ]


def _begins(side: Samples) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    loud = np.flatnonzero(np.abs(side) > CLICK / 5)
    apart = np.diff(loud, prepend=-RATE) > 0.6 * SPACING * RATE
    return loud[apart]


@contextmanager
def stock() -> Iterator[str]:
    """The address of a stock aiortc server."""
    command = [sys.executable, "-m", "server.bench.webrtc.echo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def recorded(browser: Browser, url: str, seconds: float) -> Recording:
    """A call to the server at ``url``."""
    with browser.new_context(bypass_csp=True) as context:
        page = context.new_page()
        page.route("**/ears", lambda route: route.fulfill(body="<!doctype html>"))
        worklet = HERE / "recorder-worklet.js"
        page.route(
            "**/recorder-worklet.js",
            lambda route: route.fulfill(path=worklet, content_type="text/javascript"),
        )
        page.goto(url + "ears")
        call = (HERE / "ears.js").read_text()
        first, *sides = page.evaluate(call, [url + CALLS, seconds])
    local, remote = (
        np.frombuffer(base64.b64decode(side), "<i2").astype(np.float32) / np.float32(32768)
        for side in sides
    )
    return Recording(first, local, remote)


def heard(chromium: Chromium, url: str, folder: Path, count: int) -> list[float]:
    """The delays of ``count`` clicks, through a browser of their own."""
    microphone = folder / "clicks.wav"
    sound = clicks(count)
    write_wav(microphone, sound, RATE)
    browser = chromium(GRANTED, f"--use-file-for-fake-audio-capture={microphone}%noloop")
    found = delays(recorded(browser, url, len(sound) / RATE))
    browser.close()
    assert len(found) >= 0.8 * count
    return found


def ratio(
    chromium: Chromium, folder: Path, tell: Tell, replies: str, packet: int, count: int
) -> float:
    """Our median in that of stock aiortc, one after the other."""
    stolen = StolenTime()
    with stock() as url:
        theirs = heard(chromium, url, folder, count)
    sound = ("--webrtc.addresses", '["127.0.0.1"]', "--webrtc.sound.packet-ms", str(packet))
    with simulated(folder / "log", *sound, threshold=REPLIES[replies], **ECHO) as server:
        ours = heard(chromium, server.url, folder, count)
    medians = [statistics.median(side) for side in (ours, theirs)]
    tell(
        f"mouth to ear, {replies}, packets of {packet} ms: median {medians[0]:.1f} ms (10 to 90 %: "
        f"{np.percentile(ours, 10):.0f} to {np.percentile(ours, 90):.0f}) of {len(ours)} clicks, "
        f"stock aiortc {medians[1]:.1f} ms: {medians[0] / medians[1]:.2f} of it, budget "
        f"{BUDGET[packet]:g}, {stolen.share()}"
    )
    return medians[0] / medians[1]


def test_a_call_adds_less_than_a_stock_server(
    chromium: Chromium, tmp_path: Path, tell: Tell
) -> None:
    assert ratio(chromium, tmp_path, tell, "one reply", 20, 8) <= 2 * BUDGET[20]


@pytest.mark.full
@pytest.mark.parametrize("packet", [20, 10])
@pytest.mark.parametrize("replies", REPLIES)
def test_a_call_keeps_its_budget_from_mouth_to_ear(
    chromium: Chromium, tmp_path: Path, tell: Tell, replies: str, packet: int
) -> None:
    assert ratio(chromium, tmp_path, tell, replies, packet, 18) <= BUDGET[packet]
