"""The end-of-turn model on the real network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.turns.smart_turn import RATE, SmartTurn
from tests.sounds import SENTENCES, hibari, librivox

if TYPE_CHECKING:
    from engine.weights import Paths

PAUSE = np.zeros(RATE // 5, np.float32)


@pytest.fixture(scope="module")
def model(weights: Paths) -> SmartTurn:
    return SmartTurn(weights.smart_turn)


@pytest.mark.weights
def test_finished_sentences_are_finished(model: SmartTurn) -> None:
    for sentence in SENTENCES:
        assert model.judge(np.concatenate([hibari(sentence, RATE), PAUSE])) > 0.5


@pytest.mark.weights
@pytest.mark.recordings
def test_most_sentences_cut_in_the_middle_are_not(model: SmartTurn) -> None:
    halves = [clip.pcm[: len(clip.pcm) // 2] for clip in librivox(RATE)]
    assert sum(model.judge(half) < 0.5 for half in halves) >= len(halves) - 1


@pytest.mark.weights
def test_nothing_heard_is_judged_too(model: SmartTurn) -> None:
    assert 0 <= model.judge(np.zeros(0, np.float32)) <= 1
