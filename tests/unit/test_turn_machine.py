"""What the turn machine promises, over every course that speech can take."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import TurnDetection
from engine.turns.machine import (
    CHUNK,
    LONGEST_TURN,
    MINIMUM_SILENCE,
    PATIENCE,
    RATE,
    Action,
    Chunk,
    Ended,
    Judge,
    Onset,
    OnsetDropped,
    Partial,
    Pause,
    Resumed,
    Started,
    TurnMachine,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

SPEECH, SILENCE = 0.95, 0.02
SEMANTIC = TurnDetection(kind="semantic")
heard = st.tuples(
    st.sampled_from([SILENCE, 0.4, 0.6, SPEECH]), st.booleans(), st.booleans(), st.floats(0, 1)
)
detections = st.builds(
    TurnDetection,
    kind=st.sampled_from(["none", "server", "semantic"]),
    silence_ms=st.integers(0, 1000),
    prefix_ms=st.integers(0, 1000),
)


def run(machine: TurnMachine, probabilities: Iterable[float], at: int = 0) -> list[Action]:
    actions: list[Action] = []
    for index, probability in enumerate(probabilities):
        actions += machine.step(Chunk(at + index * CHUNK, probability))
    return actions


def of(actions: list[Action], *kinds: type) -> list[Action]:
    return [action for action in actions if isinstance(action, kinds)]


@given(detections, st.lists(heard, max_size=300), st.sampled_from(["expire", "reset", "none"]))
def test_every_start_has_one_end_and_every_onset_one_outcome(
    detection: TurnDetection, course: list[tuple[float, bool, bool, float]], last: str
) -> None:
    machine = TurnMachine()
    actions = machine.configure(detection)
    for index, (probability, passed, speaking, verdict) in enumerate(course):
        told = machine.step(Chunk(index * CHUNK, probability, passed, speaking))
        actions += told
        for judge in of(told, Judge):
            assert isinstance(judge, Judge)
            actions += machine.judge(judge.pause, verdict)
    if last == "none":
        actions += machine.configure(TurnDetection(kind="none"))
    else:
        actions += machine.expire() if last == "expire" else machine.reset(len(course) * CHUNK)
    assert not machine.open
    floor = 0
    expected: tuple[type, ...] = (Onset,)
    follows: dict[type, tuple[type, ...]] = {
        Onset: (OnsetDropped, Started),
        OnsetDropped: (Onset,),
        Started: (Partial, Pause, Ended),
        Partial: (Partial, Pause, Ended),
        Pause: (Judge, Resumed, Ended),
        Judge: (Judge, Resumed, Ended),
        Resumed: (Partial, Pause, Ended),
        Ended: (Onset,),
    }
    for action in actions:
        assert isinstance(action, expected), (action, expected)
        expected = follows[type(action)]
        if isinstance(action, Started):
            assert action.at >= floor, "a turn reaches into the one before"
        if isinstance(action, Ended):
            assert floor <= action.start < action.at
            floor = action.at


@given(st.lists(heard, max_size=200), st.integers(0, 200))
def test_a_verdict_on_a_pause_that_is_over_changes_nothing(
    course: list[tuple[float, bool, bool, float]], stale: int
) -> None:
    machine, other = TurnMachine(), TurnMachine()
    machine.configure(SEMANTIC)
    other.configure(SEMANTIC)
    for index, (probability, passed, speaking, _) in enumerate(course):
        chunk = Chunk(index * CHUNK, probability, passed, speaking)
        actions = machine.step(chunk)
        assert other.step(chunk) == actions
        if of(actions, Resumed, Ended):
            assert other.judge(stale % (index + 1), 1.0) == [] or of(actions, Pause)


def test_a_click_is_an_onset_that_is_dropped() -> None:
    actions = run(TurnMachine(), [SPEECH] + [SILENCE] * 10)
    assert actions == [Onset(0), OnsetDropped()]


def test_sound_below_the_threshold_is_no_speech() -> None:
    for threshold, turns in ((0.5, 1), (0.95, 0)):
        machine = TurnMachine()
        machine.configure(TurnDetection(threshold=threshold))
        assert len(of(run(machine, [0.9] * 20 + [SILENCE] * 40), Started)) == turns


def test_a_turn_begins_with_its_pre_roll() -> None:
    actions = run(TurnMachine(), [SILENCE] * 20 + [SPEECH] * 3)
    assert actions == [Onset(20 * CHUNK), Started(20 * CHUNK - 300 * RATE // 1000)]


def test_over_a_reply_a_start_needs_more_speech_and_louder_proof() -> None:
    machine = TurnMachine()
    weak = [machine.step(Chunk(i * CHUNK, 0.6, speaking=True)) for i in range(20)]
    assert not any(weak)
    actions: list[Action] = []
    for index in range(20, 26):
        actions += machine.step(Chunk(index * CHUNK, SPEECH, speaking=True))
    assert isinstance(actions[0], Onset)
    assert isinstance(actions[1], Started)
    assert len(actions) == 2


def test_a_cough_over_a_reply_starts_no_turn() -> None:
    machine = TurnMachine()
    actions: list[Action] = []
    for index, probability in enumerate([SPEECH] * 5 + [SILENCE] * 12):
        actions += machine.step(Chunk(index * CHUNK, probability, speaking=True))
    assert actions == [Onset(0), OnsetDropped()]


@pytest.mark.parametrize("silence_ms", [200, 500, 800])
def test_server_detection_ends_at_the_set_silence(silence_ms: int) -> None:
    machine = TurnMachine()
    machine.configure(TurnDetection(kind="server", silence_ms=silence_ms))
    actions = run(machine, [SPEECH] * 20 + [SILENCE] * 60)
    (ended,) = of(actions, Ended)
    assert isinstance(ended, Ended)
    silence = ended.at - 20 * CHUNK
    assert silence_ms * RATE // 1000 <= silence < silence_ms * RATE // 1000 + CHUNK


def test_semantic_detection_ends_at_the_verdict_but_not_before_the_minimum() -> None:
    machine = TurnMachine()
    machine.configure(SEMANTIC)
    actions = run(machine, [SPEECH] * 20 + [SILENCE] * 2)
    (pause,) = of(actions, Pause)
    assert isinstance(pause, Pause)
    assert machine.judge(pause.pause, 0.9) == []
    (ended,) = of(run(machine, [SILENCE] * 20, at=22 * CHUNK), Ended)
    assert isinstance(ended, Ended)
    assert ended.at == 20 * CHUNK + MINIMUM_SILENCE


def test_a_late_verdict_ends_the_turn_at_once() -> None:
    machine = TurnMachine()
    machine.configure(SEMANTIC)
    actions = run(machine, [SPEECH] * 20 + [SILENCE] * 12)
    (pause,) = of(actions, Pause)
    assert isinstance(pause, Pause)
    (ended,) = machine.judge(pause.pause, 0.9)
    assert ended == Ended(0, 32 * CHUNK, pause.pause, "silence")


@pytest.mark.parametrize("eagerness", ["low", "medium", "high", "auto"])
def test_an_unfinished_sentence_ends_at_the_fallback(eagerness: str) -> None:
    machine = TurnMachine()
    machine.configure(TurnDetection(kind="semantic", eagerness=eagerness))  # type: ignore[arg-type]
    actions = run(machine, [SPEECH] * 20 + [SILENCE] * 2)
    (pause,) = of(actions, Pause)
    assert isinstance(pause, Pause)
    machine.judge(pause.pause, 0.1)
    (ended,) = of(run(machine, [SILENCE] * 300, at=22 * CHUNK), Ended)
    assert isinstance(ended, Ended)
    waited = ended.at - 20 * CHUNK - PATIENCE[eagerness].fallback * RATE // 1000
    assert 0 <= waited < CHUNK


def test_who_names_an_eagerness_gets_the_longest_wait_that_is_sold_with_it() -> None:
    assert [PATIENCE[name].fallback for name in ("high", "medium", "low")] == [2000, 4000, 8000]


@pytest.mark.parametrize("eagerness", ["low", "medium", "high", "auto"])
def test_an_unfinished_pause_is_judged_again_as_it_grows(eagerness: str) -> None:
    machine = TurnMachine()
    machine.configure(TurnDetection(kind="semantic", eagerness=eagerness))  # type: ignore[arg-type]
    actions = run(machine, [SPEECH] * 20 + [SILENCE] * 300)
    waits = [(a.at - 20 * CHUNK) * 1000 // RATE for a in actions if isinstance(a, Judge)]
    for wait, asked in zip(waits, PATIENCE[eagerness].asked, strict=True):
        assert asked <= wait < asked + 32


def test_server_detection_asks_no_model() -> None:
    assert not of(run(TurnMachine(), [SPEECH] * 20 + [SILENCE] * 80), Judge)


def test_speech_that_goes_on_voids_the_pause() -> None:
    machine = TurnMachine()
    actions = run(machine, [SPEECH] * 10 + [SILENCE] * 4 + [SPEECH] * 2)
    assert [type(action) for action in actions] == [Onset, Started, Pause, Resumed]


def test_the_middle_between_speech_and_silence_neither_begins_nor_ends_a_pause() -> None:
    machine = TurnMachine()
    actions = run(machine, [SPEECH] * 10 + [0.4] * 8)
    assert not of(actions, Pause)
    assert of(run(machine, [SILENCE, 0.4], at=18 * CHUNK), Pause)


def test_partials_come_every_eight_tenths_of_a_second_and_thin_out() -> None:
    ats = [a.at for a in run(TurnMachine(), [SPEECH] * 1800) if isinstance(a, Partial)]
    gaps = [b - a for a, b in pairwise(ats)]
    assert min(gaps) >= RATE * 4 // 5
    assert max(gaps) <= RATE * 7
    assert gaps == sorted(gaps)


def test_a_turn_is_never_longer_than_a_minute() -> None:
    actions = run(TurnMachine(), [SPEECH] * (LONGEST_TURN // CHUNK + 10))
    (ended,) = of(actions, Ended)
    assert isinstance(ended, Ended)
    assert ended.cause == "too_long"
    assert ended.at - ended.start < LONGEST_TURN + CHUNK
    assert isinstance(actions[-1], Started), "speech that goes on is the next turn"


def test_a_microphone_that_vanishes_ends_its_turn() -> None:
    machine = TurnMachine()
    run(machine, [SPEECH] * 10)
    assert machine.expire() == [Ended(0, 10 * CHUNK, None, "no_sound")]
    assert machine.expire() == []


def test_without_detection_nothing_is_a_turn() -> None:
    machine = TurnMachine()
    machine.configure(TurnDetection(kind="none"))
    assert run(machine, [SPEECH] * 100) == []


def test_after_a_reset_the_next_turn_stays_clear_of_what_was_taken() -> None:
    machine = TurnMachine()
    run(machine, [SPEECH] * 10)
    assert [type(action) for action in machine.reset(10 * CHUNK)] == [Ended]
    actions = run(machine, [SPEECH] * 3, at=10 * CHUNK)
    assert actions == [Onset(10 * CHUNK), Started(10 * CHUNK)]
