"""A cascade that only listens: turns and words as ever, and a refusal where an answer is wanted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from engine.cascade.chain import Chain
from engine.cascade.engine import CascadeEngine
from engine.cascade.listening import NoModel, NoVoice
from engine.contract import (
    Abilities,
    Context,
    Message,
    ReplyEnded,
    Respond,
    TranscriptCompleted,
    Turn,
)
from tests.unit.cascade_fakes import FakeJudge, Fakes, Loudness
from tests.unit.test_cascade_session import calling


@dataclass
class Listening(Fakes):
    """A chain without a model and a voice."""

    @property
    def chain(self) -> Chain:
        return Chain(Loudness(), self.judge, self.recogniser, NoModel(), NoVoice())


async def test_the_melody_alone_ends_turns_that_are_found_by_meaning() -> None:
    async with calling(Listening(judge=FakeJudge(probability=0.9))) as caller:
        turn = await caller.turn(4)
        assert (await caller.until(TranscriptCompleted)).text == "one two three four"
        assert caller.all(TranscriptCompleted)[0].turn == turn


@pytest.mark.parametrize("verbatim", [None, "Hello."], ids=["of the model", "of the voice"])
async def test_an_answer_that_is_wanted_all_the_same_fails_and_says_why(
    verbatim: str | None,
) -> None:
    async with calling(Listening()) as caller:
        turn = await caller.turn()
        message = Message(role="user", parts=(Turn(turn=turn),))
        caller.order(
            Context(revision=1, messages=(message,)),
            Respond(reply="r", revision=1, turn=turn, verbatim=verbatim),
        )
        ended = await caller.until(ReplyEnded)
        assert ended.reason == "failed"
        assert "this engine only listens" in ended.message


def test_it_tells_what_it_cannot_do() -> None:
    info = CascadeEngine({"listens_only": True}).info
    assert info.can == Abilities(transcripts=True)
    assert info.voices == ()


@pytest.mark.weights
async def test_it_starts_without_a_language_model_and_a_voice() -> None:
    engine = CascadeEngine({"listens_only": True})
    await engine.start()
    try:
        assert engine.state == "ready"
        assert engine.info.languages == ("en",)
        assert engine._chain is not None
        assert isinstance(engine._chain.model, NoModel)
        assert isinstance(engine._chain.voice, NoVoice)
    finally:
        await engine.stop()
