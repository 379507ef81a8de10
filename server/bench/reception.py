"""``parley bench reception``: what a network does to a caller's sound, here and in stock aiortc.

A minute of packets, 20 ms each, is sent through simulated networks: losses, bursts of them, jitter,
a caller who sends nothing while silent, clocks that drift. Each arrival goes to our receiver and to
aiortc's jitter buffer in the same run. No sound is decoded: what counts is when that of each packet
is heard, and which never is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from aiortc.jitterbuffer import JitterBuffer
from aiortc.rtp import RtpPacket

from engine.contract import Samples
from server.bench import machine
from server.transport.webrtc.incoming import Incoming
from server.transport.webrtc.reorder import MS
from server.transport.webrtc.rtp import Packet

STEP = 20 * MS
COUNT = 3_000
RATE = 16_000
TICKS = 960
"""Timestamps per packet."""


class Arrival(NamedTuple):
    """Packet ``number``, sent at ``sent`` (ns) with ``timestamp``, came at ``came``."""

    number: int
    timestamp: int
    sent: int
    came: int


class Network(NamedTuple):
    """What happens to a minute of packets."""

    name: str
    loss: float = 0.0
    burst: int = 1
    jitter: int = 0
    """Milliseconds, evenly spread."""
    drift: float = 0.0
    """Of the sender's clock, in millionths."""
    silent: bool = False
    """The caller is silent every other second, and sends a packet every 400 ms then (DTX)."""


NETWORKS = (
    Network("clean"),
    *(Network(f"loss {loss} %", loss=loss / 100) for loss in (1, 5, 10, 20)),
    Network("loss 5 %, in bursts of 5", loss=0.05, burst=5),
    *(Network(f"jitter {jitter} ms", jitter=jitter) for jitter in (10, 30, 60, 80)),
    Network("loss 5 %, jitter 30 ms", loss=0.05, jitter=30),
    Network("DTX", silent=True),
    Network("clock 200 ppm fast", drift=-200),
    Network("clock 200 ppm slow", drift=200),
)


class Heard(NamedTuple):
    """Milliseconds of delay, and the share of packets whose sound was never heard."""

    p50: float
    p99: float
    last: float
    """Median of the last two seconds: what a call is left with."""
    unheard: float


def arrivals(network: Network, seed: int = 0) -> list[Arrival]:
    """The packets that come, in the order in which they do."""
    random = np.random.default_rng(seed)
    came: list[Arrival] = []
    number = lost = 0
    for slot in range(COUNT):
        if network.silent and slot // 50 % 2 and slot % 20:
            continue
        sent = round(slot * STEP * (1 + network.drift / 1e6))
        lost = network.burst if random.random() < network.loss / network.burst else lost
        if lost:
            lost -= 1
        else:
            late = round(random.random() * network.jitter * MS)
            came.append(Arrival(number, slot * TICKS, sent, sent + late))
        number += 1
    return sorted(came, key=lambda arrival: arrival.came)


def ours(came: Sequence[Arrival]) -> dict[int, int]:
    """When the sound of each packet is heard by our receiver, by its number."""
    heard: dict[int, int] = {}

    class Marked:
        """Decodes nothing, and notes whose turn it is."""

        rate = RATE
        now = 0

        def decode(self, packet: bytes) -> Samples:
            heard[int(packet)] = self.now
            return _FRAME

        def recover(self, packet: bytes, samples: int) -> Samples:
            return _FRAME[:samples]

        def conceal(self, samples: int) -> Samples:
            return _FRAME[:samples]

    decoder = Marked()
    incoming = Incoming(decoder)
    for each in came:
        while (due := incoming.due()) is not None and due <= each.came:
            decoder.now = due
            incoming.poll(due)
        decoder.now = each.came
        number, timestamp = each.number & 0xFFFF, each.timestamp & 0xFFFF_FFFF
        incoming.push(Packet(number, timestamp, b"%06d" % each.number), each.came)
    return heard


def stock(came: Sequence[Arrival]) -> dict[int, int]:
    """The same of aiortc's jitter buffer, as its receiver makes it for sound."""
    buffer = JitterBuffer(capacity=16, prefetch=4)
    heard: dict[int, int] = {}
    for each in came:
        packet = RtpPacket(sequence_number=each.number & 0xFFFF, timestamp=each.timestamp)
        packet._data = b"%d" % each.number  # type: ignore[attr-defined]
        _, frame = buffer.add(packet)
        if frame is not None:
            heard[int(frame.data)] = each.came
    return heard


def judged(came: Sequence[Arrival], heard: dict[int, int]) -> Heard:
    """How late ``heard`` is, a packet's own length not counted."""
    delays = [
        (heard[each.number] - each.sent) / MS
        for each in sorted(came, key=lambda each: each.number)
        if each.number in heard
    ]
    return Heard(
        float(np.median(delays)),
        float(np.percentile(delays, 99)),
        float(np.median(delays[-100:])),
        1 - len(delays) / len(came),
    )


def measured(seed: int = 0) -> dict[str, dict[str, Heard]]:
    """Each network's name, and what is heard through it by either."""
    told: dict[str, dict[str, Heard]] = {}
    receivers: dict[str, Callable[[Sequence[Arrival]], dict[int, int]]]
    receivers = {"ours": ours, "stock": stock}
    for network in NETWORKS:
        came = arrivals(network, seed)
        told[network.name] = {who: judged(came, hear(came)) for who, hear in receivers.items()}
    return told


def main(arguments: Sequence[str]) -> int:
    """Prints the table; returns an exit status."""
    parser = argparse.ArgumentParser("parley bench reception", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the networks' chances")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args(arguments)
    machine.announce()
    told = measured(options.seed)
    print("delay in ms, p50 / p99 / left at the end; packets that came and were not heard")
    print(f"{'network':26} {'ours':>32} {'stock aiortc':>32}")
    for name, row in told.items():
        print(f"{name:26} {_line(row['ours']):>32} {_line(row['stock']):>32}")
    if options.json:
        plain = {name: {who: h._asdict() for who, h in row.items()} for name, row in told.items()}
        options.json.write_text(json.dumps(plain, indent=1))
    return 0


def _line(heard: Heard) -> str:
    figures = f"{heard.p50:.0f} / {heard.p99:.0f} / {heard.last:.0f} ms"
    return f"{figures}, {heard.unheard:.1%} unheard"


_FRAME = np.zeros(RATE // 50, np.float32)
