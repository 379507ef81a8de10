"""The echo guard over real speech: replies that come back do not interrupt, callers do."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import Samples
from engine.turns.echo import PRIOR, EchoGuard, level
from engine.turns.machine import CHUNK, Chunk, Onset, Started, TurnMachine
from engine.turns.silero import SileroDetector
from engine.weights import paths
from tests.sounds import SENTENCES, hibari, librivox, resampled

INPUT, OUTPUT = 16_000, 24_000
PAUSE = 1.0


@cache
def replies() -> tuple[Samples, ...]:
    return tuple(hibari(sentence) for sentence in SENTENCES[:5])


@dataclass
class Scene:
    """Five replies a second apart, as they sound in a microphone, chunk by chunk."""

    echo: float | None
    late: float = 0.15
    microphone: Samples = field(init=False)
    starts: list[float] = field(init=False)

    def __post_init__(self) -> None:
        pause = np.zeros(int(PAUSE * OUTPUT), np.float32)
        sound, self.starts = pause, []
        for reply in replies():
            self.starts.append(len(sound) / OUTPUT)
            sound = np.concatenate([sound, reply, pause])
        played = resampled(sound, OUTPUT, INPUT)
        noise = np.random.default_rng(0).normal(0, 2e-4, len(played))
        self.microphone = noise.astype(np.float32)
        if self.echo is not None:
            lag = int(self.late * INPUT)
            self.microphone[lag:] += np.float32(10 ** (self.echo / 20)) * played[:-lag]

    def interrupt(self, pcm: Samples, at: float, below: float = 0.0) -> None:
        """A caller speaks ``pcm`` at second ``at``, ``below`` dB softer than the replies."""
        gain = 10 ** ((level(np.concatenate(replies())) - level(pcm) - below) / 20)
        first = int(at * INPUT)
        space = self.microphone[first : first + len(pcm)]
        space += np.float32(gain) * pcm[: len(space)]

    def chunks(self, guard: EchoGuard) -> list[tuple[int, Samples, bool, bool]]:
        """``(at, pcm, passed, speaking)``; playout is reported every 100 ms, 50 ms late."""
        told, due = 0, [start + 0.15 for start in self.starts]
        result = []
        for at in range(0, len(self.microphone) - CHUNK, CHUNK):
            now = at / INPUT
            if told < len(self.starts) and now >= self.starts[told]:
                guard.handed_out(str(told), replies()[told], at)
                told += 1
            for index in range(told):
                played = int((now - self.starts[index]) * OUTPUT)
                length = len(replies()[index])
                if now >= due[index] and played < length + 0.2 * OUTPUT:
                    due[index] = now + 0.1
                    guard.played(str(index), min(played, length), at)
            pcm = self.microphone[at : at + CHUNK]
            result.append((at, pcm, guard.passes(pcm, at), guard.speaking(at)))
        return result


def onsets(scene: Scene) -> tuple[list[float], list[float]]:
    """Seconds of the onsets and starts that the whole chain finds."""
    machine, ear = TurnMachine(), SileroDetector(paths().silero).stream()
    found: tuple[list[float], list[float]] = ([], [])
    for at, pcm, passed, speaking in scene.chunks(EchoGuard(INPUT, OUTPUT)):
        for action in machine.step(Chunk(at, ear.judge(pcm), passed, speaking)):
            if isinstance(action, Onset):
                found[0].append((at + CHUNK) / INPUT)
            if isinstance(action, Started):
                found[1].append((at + CHUNK) / INPUT)
    return found


@pytest.mark.weights
@pytest.mark.parametrize("late", [0.04, 0.15, 0.3])
@pytest.mark.parametrize("echo", [-40.0, -30.0, -20.0, -14.0])
def test_five_replies_that_come_back_are_no_onset(echo: float, late: float) -> None:
    assert onsets(Scene(echo, late)) == ([], [])


@pytest.mark.weights
def test_an_echo_louder_than_thought_starts_no_turn_and_is_learned() -> None:
    held, started = onsets(Scene(-6.0))
    assert started == []
    assert all(at < 6 for at in held), "learned within the first replies"


@pytest.mark.weights
@pytest.mark.recordings
@pytest.mark.parametrize(("echo", "below"), [(-20.0, 0.0), (-30.0, 6.0), (None, 0.0), (None, 12.0)])
def test_a_caller_is_heard_over_the_reply(echo: float | None, below: float) -> None:
    at, waits = Scene(None).starts[2] + 0.3, []
    for clip in librivox():
        scene = Scene(echo)
        scene.interrupt(clip.pcm[np.flatnonzero(np.abs(clip.pcm) > 0.03)[0] :], at, below)
        held, started = onsets(scene)
        assert held[0] > at
        assert started
        waits.append(held[0] - at)
    assert np.median(waits) <= (0.1 if below == 0 else 0.2), waits


@pytest.mark.weights
@pytest.mark.recordings
@pytest.mark.parametrize("echo", [-20.0, -30.0, None])
def test_a_caller_is_heard_over_one_reply_after_another(echo: float | None) -> None:
    scene, clip = Scene(echo), librivox()[0]
    spoken = clip.pcm[np.flatnonzero(np.abs(clip.pcm) > 0.03)[0] :][: int(1.5 * INPUT)]
    breaks = [start + 0.9 for start in scene.starts]
    for at in breaks:
        scene.interrupt(spoken, at)
    held, _ = onsets(scene)
    waits = [min(found - at for found in held if found > at) for at in breaks]
    assert np.median(waits) <= 0.25 and max(waits) <= 0.6, waits


def test_on_headphones_the_guard_gives_way() -> None:
    guard = EchoGuard(INPUT, OUTPUT)
    Scene(None).chunks(guard)
    assert guard.gain < PRIOR - 20


def test_a_reply_is_heard_from_its_first_sample_to_its_last_echo_and_no_longer() -> None:
    scene, guard = Scene(-20.0), EchoGuard(INPUT, OUTPUT)
    heard = [at / INPUT for at, _, _, speaking in scene.chunks(guard) if speaking]
    for start, reply in zip(scene.starts, replies(), strict=True):
        over = start + len(reply) / OUTPUT
        during = [at for at in heard if start <= at < over + PAUSE]
        assert during[0] - start < 0.3
        assert during[-1] - over < 0.6


def test_a_reply_that_was_cut_guards_nothing_after_its_echo() -> None:
    guard = EchoGuard(INPUT, OUTPUT)
    guard.handed_out("r", replies()[0], 0)
    guard.played("r", OUTPUT // 2, INPUT // 2)
    guard.stopped("r")
    assert guard.speaking(INPUT // 2)
    assert not guard.speaking(INPUT // 2 + INPUT)


def test_a_playout_that_is_held_guards_nothing_after_its_echo() -> None:
    guard = EchoGuard(INPUT, OUTPUT)
    guard.handed_out("r", replies()[0], 0)
    guard.played("r", OUTPUT // 2, INPUT // 2)
    assert not guard.speaking(INPUT // 2 + INPUT)
    guard.played("r", OUTPUT, INPUT * 3)
    assert guard.speaking(INPUT * 3), "and guards again when it goes on"


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=20))
def test_the_reference_is_the_same_however_it_was_handed_out(sizes: list[int]) -> None:
    sound = replies()[0][: sum(sizes)]
    whole, pieces = EchoGuard(INPUT, OUTPUT), EchoGuard(INPUT, OUTPUT)
    whole.handed_out("r", sound, 0)
    first = 0
    for size in sizes:
        pieces.handed_out("r", sound[first : first + size], 0)
        first += size
    chunk = np.full(CHUNK, 0.01, np.float32)
    ats = range(0, 10 * CHUNK, CHUNK)
    assert [whole.passes(chunk, at) for at in ats] == [pieces.passes(chunk, at) for at in ats]


def test_a_reply_that_sounds_ends_the_echo_of_those_before_it() -> None:
    """Also for a caller who sends no sound meanwhile, for whom no time passes."""
    guard = EchoGuard(INPUT, OUTPUT)
    second = np.full(OUTPUT, 0.5, np.float32)
    guard.handed_out("loud", second, 0)
    guard.played("loud", OUTPUT, 0)
    guard.handed_out("soft", np.full(OUTPUT, 0.01, np.float32), 0)
    caller = np.full(CHUNK, 0.05, np.float32)
    assert not guard.passes(caller, 0)
    guard.played("soft", OUTPUT, 0)
    assert guard.passes(caller, CHUNK)
