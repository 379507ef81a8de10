"""Token for token what NVIDIA's own stepper said, recorded in ``fixtures/personaplex-tiny``.

The recording was made with random weights, greedy, at batch 1: a voice given as codes, a role and
what a caller says, in three sessions, the third of them going on past the end of its ring.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.duplex.prompt import Prompt, Voice, prompt
from engine.duplex.shapes import Shape
from tests.duplex.tiny import Talker

FIXTURE = Path(__file__).parents[1] / "fixtures/personaplex-tiny"
RECORD: dict[str, Any] = json.loads((FIXTURE / "record.json").read_text())
SHAPE = msgspec.convert(RECORD["config"], Shape)
SESSIONS: list[dict[str, Any]] = RECORD["sessions"]


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return {
        name: tensor.float() for name, tensor in load_file(FIXTURE / "model.safetensors").items()
    }


def talker(weights: dict[str, Tensor], slots: int = 1) -> Talker:
    return Talker(SHAPE, weights, lead=1, window=SHAPE.context - 1, slots=slots)


def primed(session: dict[str, Any], by: Talker, voice: Voice | None = None) -> Prompt:
    return prompt(
        session["text_prompt_tokens"],
        delays=SHAPE.delays,
        start=by.stepper.start_tokens.tolist(),
        span=by.stepper.span,
        voice=voice,
        voice_codes=session["voice_codes"] if voice is None else (),
    )


@pytest.mark.parametrize("session", SESSIONS, ids=lambda s: f"seed{s['seed']}")
def test_a_session_says_what_the_reference_said(
    weights: dict[str, Tensor], session: dict[str, Any]
) -> None:
    alone = talker(weights)
    alone.prime(0, primed(session, alone))
    assert [alone.step({0: frame})[0] for frame in session["user_codes"]] == session[
        "output_tokens"
    ]


@pytest.mark.parametrize("piece", [1, 3, 8])
def test_a_prompt_read_in_pieces_of_any_size_is_the_same_prompt(
    weights: dict[str, Tensor], piece: int
) -> None:
    session = SESSIONS[0]
    alone = talker(weights)
    alone.prime(0, primed(session, alone), piece)
    assert [alone.step({0: frame})[0] for frame in session["user_codes"]] == session[
        "output_tokens"
    ]


def test_sessions_that_join_apart_and_are_primed_together_do_not_disturb_each_other(
    weights: dict[str, Tensor],
) -> None:
    """The third goes past its ring's end while the others are primed beside it, in one batch."""
    by = talker(weights, slots=3)
    prompts = [primed(session, by) for session in SESSIONS]
    said: list[list[list[int] | None]] = [[], [], []]
    by.prime(2, prompts[2])
    for tick in range(70):
        if tick == 35:
            rows = [(slot, prompts[slot], at) for at in range(8) for slot in (0, 1)]
            by.read(rows)
            rest = [
                (slot, prompts[slot], at)
                for slot in (0, 1)
                for at in range(8, prompts[slot].position)
            ]
            for first in range(0, len(rest), 8):
                by.read(rest[first : first + 8])
            by.start(0, prompts[0])
            by.start(1, prompts[1])
        heard = {2: SESSIONS[2]["user_codes"][tick]}
        if 35 <= tick < 65:
            heard |= {slot: SESSIONS[slot]["user_codes"][tick - 35] for slot in (0, 1)}
        for slot, tokens in by.step(heard).items():
            said[slot].append(tokens)
    assert said == [session["output_tokens"] for session in SESSIONS]


def test_a_stored_voice_is_the_voice_that_was_played(weights: dict[str, Tensor]) -> None:
    """As published: the embeddings that were read and the columns that were left."""
    session = SESSIONS[0]
    by = talker(weights)
    played = primed(session, by)
    count = len(session["voice_codes"]) - 1
    table = by.temporal.embed(torch.from_numpy(played.inputs[:count]))
    columns = torch.zeros(SHAPE.rows, by.stepper.span, dtype=torch.long)
    last, delays = session["voice_codes"][-1], torch.tensor(SHAPE.delays)
    frame = torch.tensor([3, *last, *RECORD["sine_tokens"]])
    columns[:, count % by.stepper.span] = torch.from_numpy(played.inputs[count])
    late = delays == 1
    columns[late, (count + 1) % by.stepper.span] = frame[late]
    stored = primed(session, by, Voice(0, count, columns.numpy()))
    assert (stored.stored[: count + 1] == [*range(count), -1]).all()
    by.prime(0, stored, table=table)
    assert [by.step({0: frame})[0] for frame in session["user_codes"]] == session["output_tokens"]


def test_an_empty_role_is_left_out(weights: dict[str, Tensor]) -> None:
    by = talker(weights)
    told = primed(SESSIONS[0], by)
    untold = primed({**SESSIONS[0], "text_prompt_tokens": []}, by)
    assert untold.position == told.position - len(SESSIONS[0]["text_prompt_tokens"])
    by.prime(0, untold)
    assert all(by.step({0: frame})[0] for frame in SESSIONS[0]["user_codes"])
