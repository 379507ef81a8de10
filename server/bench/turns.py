"""``parley bench turns``: how long after a caller's last sound the reply is heard.

One caller speaks in real time to the whole server but the network: session, contract, process
border, engine, paced playout. The end of speech is the last sample above 0.015, the reply is heard
at its first sample above 0.01 that is handed to the leg; sound handed over before the end of speech
makes an early answer. Each reply is stopped once it was heard, so the next turn starts from quiet.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine import registry
from engine.contract import EndReason, EngineError
from server import logs
from server.bench import corpus, machine
from server.bench.caller import Caller
from server.bench.corpus import Clip
from server.manager import Manager
from server.observe import Metrics
from server.protocol.realtime.opening import wanted
from server.settings import ServerSettings

RECORDINGS = Path("/usr/share/pocketsphinx/test/data/librivox")
MEDIAN_BUDGET, P95_BUDGET, EARLY_BUDGET = 0.600, 0.900, 1 / 20
PATIENCE = 10.0
"""Seconds to wait for a reply."""
BETWEEN = 0.6
"""Seconds of quiet after each reply."""


@dataclass(slots=True)
class Result:
    """What one corpus showed; times in seconds from the end of speech."""

    corpus: str
    minimum_ms: int
    heard: list[float] = field(default_factory=list)
    early: int = 0
    unanswered: int = 0
    stages: dict[str, list[float]] = field(default_factory=dict)

    @property
    def turns(self) -> int:
        return len(self.heard) + self.early + self.unanswered

    def plain(self) -> dict[str, object]:
        """For JSON."""
        return {
            "corpus": self.corpus,
            "minimum_ms": self.minimum_ms,
            "turns": self.turns,
            "median": _percentile(self.heard, 50),
            "p95": _percentile(self.heard, 95),
            "early": self.early,
            "unanswered": self.unanswered,
            "stages": {
                stage: {"median": _percentile(times, 50), "p95": _percentile(times, 95)}
                for stage, times in self.stages.items()
            },
        }


class _Timings(Metrics):
    """Keeps what the engine says each stage took."""

    def __init__(self) -> None:
        super().__init__()
        self.stages: dict[str, list[float]] = {}

    def reply_ended(self, reason: EndReason, timings: Mapping[str, float]) -> None:
        super().reply_ended(reason, timings)
        for stage, seconds in timings.items():
            self.stages.setdefault(stage, []).append(seconds)


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; returns 1 where a budget is missed."""
    parser = argparse.ArgumentParser(prog="parley bench turns", description=__doc__)
    parser.add_argument("--engine", default="cascade", help="engine to measure")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--sentences", type=int, default=20, help="sentences per voice")
    parser.add_argument(
        "--minima",
        default="",
        help="silence minima to compare, in ms with commas; the first corpus is run with each",
    )
    parser.add_argument("--recordings", type=Path, default=RECORDINGS, help="folder of WAVs")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    logs.configure("warning")
    machine.announce()
    try:
        _show_costs(registry.costs(given.engine, {}))
        return asyncio.run(_bench(given))
    except EngineError as problem:
        print(f"parley: {problem}")
        return 1


async def _bench(given: argparse.Namespace) -> int:
    before = machine.cpu_times()
    results: list[Result] = []
    minima = [int(ms) for ms in given.minima.split(",") if ms]
    for minimum in [None, *minima]:
        options = {} if minimum is None else {"minimum_silence_ms": minimum}
        engine = registry.create(given.engine, options, own_process=True)
        metrics = _Timings()
        manager = Manager(engine, ServerSettings(), metrics)
        await manager.start()
        try:
            corpora = await _corpora(manager, given, curve=minimum is not None)
            for name, clips in corpora.items():
                result = Result(name, minimum or 0)
                await _run(manager, metrics, clips, result)
                results.append(result)
                _show(result)
        finally:
            await manager.stop()
    machine.conclude(before)
    if given.json:
        given.json.write_text(json.dumps([result.plain() for result in results], indent=1))
    return 0 if _within(results) else 1


async def _corpora(
    manager: Manager, given: argparse.Namespace, *, curve: bool
) -> dict[str, list[Clip]]:
    rng = np.random.default_rng(given.seed)
    sentences = corpus.SENTENCES[: given.sentences]
    own = [sound async for sound in corpus.spoken(manager.engine, sentences)]
    voices = {"own voice": own}
    if not curve and shutil.which("flite"):
        voices["flite"] = corpus.flite(sentences)
    clips = [
        corpus.clip(f"{voice} {number}", sound, rng)
        for voice, sounds in voices.items()
        for number, sound in enumerate(sounds)
    ]
    made = {"sentences": clips}
    recordings = sorted(given.recordings.glob("*.wav"))
    if not curve and recordings:
        read = [corpus.clip(path.stem, corpus.recorded(path), rng) for path in recordings]
        made["recordings"] = read
    made["sentences with a pause"] = [corpus.paused(whole, rng) for whole in clips]
    return made


async def _run(manager: Manager, metrics: _Timings, clips: list[Clip], result: Result) -> None:
    """One call: every clip said in turn, each reply timed and stopped."""
    caller = Caller(manager.engine.info.output_rate, np.random.default_rng(2))
    stay = await manager.admit(wanted(None, model="bench"), leg=True)
    stay.carry(caller)
    turns = {"type": "semantic_vad"}
    update = {"type": "realtime", "audio": {"input": {"turn_detection": turns}}}
    stay.inbox.receive(json.dumps({"type": "session.update", "session": update}), _Deaf())
    metrics.stages.clear()
    await asyncio.sleep(1)
    for clip in clips:
        caller.say(clip)
        await _until_heard(caller, len(clip.pcm) / corpus.RATE + PATIENCE)
        heard, sent, end = caller.first_heard, caller.first_sent, caller.spoke_until
        if heard is None or sent is None or end is None:
            result.unanswered += 1
        elif sent < end:
            result.early += 1
        else:
            result.heard.append(heard - end)
        await asyncio.sleep(BETWEEN)
        for kind in ("response.cancel", "output_audio_buffer.clear"):
            stay.inbox.receive(json.dumps({"type": kind}), _Deaf())
        await asyncio.sleep(BETWEEN)
    result.stages = {stage: list(times) for stage, times in metrics.stages.items()}
    await stay.end("hangup")
    caller.close()


async def _until_heard(caller: Caller, patience: float) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        await asyncio.sleep(0.01)
        if caller.spoke_until is not None and caller.first_heard is not None:
            return


class _Deaf:
    """A subscriber that wants no events."""

    def send(self, text: bytes) -> None:
        pass


def _show(result: Result) -> None:
    name = f"{result.corpus}" + (f", minimum {result.minimum_ms} ms" if result.minimum_ms else "")
    print(
        f"{name}: {result.turns} turns, median {1000 * _percentile(result.heard, 50):.0f} ms, "
        f"p95 {1000 * _percentile(result.heard, 95):.0f} ms, early {result.early}, "
        f"unanswered {result.unanswered}"
    )
    for stage, times in sorted(result.stages.items()):
        median, p95 = (1000 * _percentile(times, p) for p in (50, 95))
        print(f"    {stage:16} median {median:6.0f} ms   p95 {p95:6.0f} ms")


def _show_costs(costs: Mapping[str, Sequence[float]]) -> None:
    if costs:
        print("each stage alone:")
    for stage, times in costs.items():
        median, p95 = (1000 * _percentile(times, p) for p in (50, 95))
        print(f"    {stage:16} median {median:6.1f} ms   p95 {p95:6.1f} ms")


def _within(results: list[Result]) -> bool:
    """Whether the plain sentences keep the budget."""
    plain = next(result for result in results if result.corpus == "sentences")
    return (
        not plain.unanswered
        and plain.early <= EARLY_BUDGET * plain.turns
        and _percentile(plain.heard, 50) <= MEDIAN_BUDGET
        and _percentile(plain.heard, 95) <= P95_BUDGET
    )


def _percentile(values: Sequence[float], percent: float) -> float:
    return round(float(np.percentile(values, percent)), 4) if values else float("nan")
