"""Callers in slots, from sound to sound: each is served as if it were alone."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
import torch

from engine.duplex.build import Built, Plan, build
from engine.duplex.load import Checkpoint, read
from engine.duplex.options import Choices, Entries
from tests.duplex.tiny import BIG_BOOKS, PERSONA, SHAPE, join, sound, write

WARM = Choices(temperature=0.9, text_temperature=0.9, top_k=20, text_top_k=20)
PLAN = Plan(slots=5, entries="float32", page=4, budget=12, chunk=5, buckets=(1, 2))

Said = tuple[list[int], npt.NDArray[np.float32]]


@pytest.fixture(scope="module")
def moshi(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return read(write(tmp_path_factory.mktemp("moshi"), SHAPE), dtype=torch.float32)


@pytest.fixture(scope="module")
def persona(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("persona")
    write(folder, PERSONA, BIG_BOOKS, model_type="personaplex")
    return read(folder, dtype=torch.float32)


def said(by: Built, slot: int) -> Said | None:
    slots = by.slots
    if not slots.due[slot]:
        assert not slots.heard[slot].any()
        return None
    assert slots.sane[slot]
    return slots.tokens[slot].tolist(), slots.heard[slot].copy()


def alone(checkpoint: Checkpoint, seed: int, frames: int, plan: Plan = PLAN) -> list[Said | None]:
    by = build(checkpoint, msgspec.structs.replace(plan, slots=1))
    slot = join(
        by.slots, msgspec.structs.replace(WARM, seed=seed), by.prompt(range(5, 5 + seed % 4))
    )
    assert slot == 0
    answers: list[Said | None] = []
    everyone = np.ones(1, np.bool_)
    for frame in sound(seed, frames):
        by.slots.pcm[0] = frame
        while not by.slots.primed[0]:
            by.slots.tick(~everyone)
        by.slots.tick(everyone)
        answers.append(said(by, 0))
    return answers


def same(answers: list[Said | None], expected: list[Said | None]) -> None:
    assert [a and a[0] for a in answers] == [e and e[0] for e in expected]
    for answer, other in zip(answers, expected, strict=True):
        if answer and other:
            np.testing.assert_allclose(answer[1], other[1], atol=1e-5, rtol=0)


@dataclasses.dataclass
class Caller:
    joins: int
    seed: int
    stays: int
    pauses: int = 0
    """Every so many ticks it sends nothing."""


CALLERS = (
    Caller(0, 1, 30),
    Caller(2, 2, 20, pauses=3),
    Caller(3, 3, 6),
    Caller(3, 4, 22),
    Caller(14, 6, 9, pauses=2),
    Caller(20, 7, 8),
)


def crowd(checkpoint: Checkpoint, plan: Plan) -> list[list[Said | None]]:
    """All of ``CALLERS`` on one device: slots are reused, rings wrap, newcomers are primed."""
    by = build(checkpoint, plan)
    answers: list[list[Said | None]] = [[] for _ in CALLERS]
    sounds = [sound(caller.seed, caller.stays) for caller in CALLERS]
    where: dict[int, int] = {}
    for tick in range(42):
        run = np.zeros(plan.slots, np.bool_)
        for number, caller in enumerate(CALLERS):
            if caller.joins == tick:
                slot = join(
                    by.slots,
                    msgspec.structs.replace(WARM, seed=caller.seed),
                    by.prompt(range(5, 5 + caller.seed % 4)),
                )
                assert slot is not None
                where[number] = slot
            if number in where:
                waits = caller.pauses and tick % caller.pauses == 0
                run[where[number]] = by.slots.primed[where[number]] and not waits
                by.slots.pcm[where[number]] = sounds[number][len(answers[number])]
        by.slots.tick(run)
        for number, slot in list(where.items()):
            if run[slot]:
                answers[number].append(said(by, slot))
            if len(answers[number]) == CALLERS[number].stays:
                by.slots.leave(where.pop(number))
    assert by.slots.free == plan.slots
    assert by.pages.free == by.pages.unpromised == plan.slots * by.ring.per_slot
    return answers


@pytest.mark.parametrize(("which", "entries"), [("moshi", "int8"), ("persona", "float32")])
def test_each_caller_of_a_crowd_is_answered_as_if_alone(
    which: str, entries: Entries, request: pytest.FixtureRequest
) -> None:
    checkpoint: Checkpoint = request.getfixturevalue(which)
    plan = msgspec.structs.replace(PLAN, entries=entries)
    for caller, answers in zip(CALLERS, crowd(checkpoint, plan), strict=True):
        same(answers, alone(checkpoint, caller.seed, caller.stays, plan))


def test_weights_of_16_bits_serve_too(moshi: Checkpoint) -> None:
    half = dataclasses.replace(
        moshi, weights=moshi.weights.to(torch.bfloat16), embeddings=moshi.embeddings.bfloat16()
    )
    answers = alone(half, 1, 20, msgspec.structs.replace(PLAN, entries="int8"))
    assert answers[0] is None and all(answers[1:])


def test_newcomers_are_primed_within_the_budget_of_each_tick(persona: Checkpoint) -> None:
    """12 positions a tick, at most 5 of one prompt: three prompts take what they must, in order."""
    by = build(persona, PLAN)
    slots = [join(by.slots, WARM, by.prompt(range(5, 9))) for _ in range(3)]
    assert slots == [0, 1, 2]
    nobody = np.zeros(PLAN.slots, np.bool_)
    primed = []
    for _ in range(5):
        by.slots.tick(nobody)
        primed.append(by.slots.primed[:3].tolist())
    assert primed[0] == [False] * 3 and primed[-1] == [True] * 3
    assert primed == sorted(primed)


def test_a_caller_for_whom_no_page_can_be_promised_is_not_admitted(moshi: Checkpoint) -> None:
    whole = build(moshi, PLAN).ring.per_slot
    by = build(moshi, msgspec.structs.replace(PLAN, pages=whole + 1))
    assert by.slots.join() == 0
    assert by.slots.join() is None
    assert by.slots.join(positions=4) == 1
    by.slots.leave(0)
    assert by.slots.join() == 0


def test_a_slot_whose_numbers_broke_says_so_and_its_next_caller_is_well(
    moshi: Checkpoint,
) -> None:
    expected = alone(moshi, 3, 20)
    by = build(moshi, msgspec.structs.replace(PLAN, slots=2))
    everyone = np.ones(2, np.bool_)
    join(by.slots, msgspec.structs.replace(WARM, seed=3))
    join(by.slots, WARM)
    answers = []
    for tick, frame in enumerate(sound(3, 20)):
        by.slots.pcm[0], by.slots.pcm[1] = frame, np.nan if 5 <= tick < 12 else frame
        by.slots.tick(everyone)
        answers.append(said(by, 0))
        assert by.slots.sane[0]
        if tick == 11:
            assert not by.slots.sane[1]
            by.slots.leave(1)
            assert join(by.slots, msgspec.structs.replace(WARM, seed=3)) == 1
    same(answers, expected)
    after = []
    for frame in sound(3, 20)[8:]:
        by.slots.pcm[1] = frame
        by.slots.tick(everyone)
        assert by.slots.sane.all()
        after.append(by.slots.due[1])
    assert all(after)
