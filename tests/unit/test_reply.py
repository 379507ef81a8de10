"""A reply in the making: how long it may be."""

from __future__ import annotations

import pytest

from engine.cascade.reply import LONGEST_WORDS, Brief, Finish, Making, Sound
from engine.cascade.stages import Prompt
from tests.unit.cascade_fakes import FakeModel, Fakes

LONG = "So it goes on. " * LONGEST_WORDS


@pytest.mark.parametrize(("verbatim", "reason"), [(None, "length"), (LONG, "completed")])
async def test_a_model_is_cut_short_and_a_given_text_is_not(
    verbatim: str | None, reason: str
) -> None:
    fakes = Fakes(model=FakeModel(answer=[LONG]))
    brief = Brief(Prompt("caller", "", ()), "anna", verbatim=verbatim)
    making = Making(fakes.chain, brief)
    pieces = [piece async for piece in making.pieces()]
    await making.close()
    said = " ".join(word.text for p in pieces if isinstance(p, Sound) for word in p.words).split()
    assert (pieces[-1].reason if isinstance(pieces[-1], Finish) else "") == reason
    assert len(said) == (len(LONG.split()) if verbatim else pytest.approx(LONGEST_WORDS, abs=4))
