"""How PersonaPlex is told whose voice it has and what its role is, before the first word.

Frames are played to it in which every row is given: the voice, half a second of silence, the role
(one frame for each token), half a second of silence; the caller's rows hear a sine all along. So
the columns that the temporal transformer reads are known beforehand and can be taken in batches of
any size; the depth transformer need not run. The order and the codes are those of NVIDIA's
``models/lm.py``; unlike there, an empty role is simply left out.

A voice is the codes of a recording, or, as published, what the temporal transformer read while one
was played: the embeddings of its inputs and the token columns that it left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SILENCE = (948, 243, 1178, 546, 1736, 1030, 1978, 2008)
"""The agent's codes of silence."""
SINE = (430, 1268, 381, 1611, 1095, 1495, 56, 472)
"""The caller's codes of a sine."""
PAD = 3
SILENT_FRAMES = 6


@dataclass(frozen=True, slots=True)
class Voice:
    """A stored voice: ``count`` embeddings from ``first`` on, of the table of all voices.

    ``columns`` [token rows, span]: the token ring behind them.
    """

    first: int
    count: int
    columns: Ints


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a slot reads before it may speak, and the tokens around its first own position.

    ``inputs`` [positions, token rows]; ``stored``: for each position its embedding in the table of
    voices, or -1 where the tokens are meant. ``columns`` and ``given`` [token rows, span]: the
    token ring at ``position``.
    """

    inputs: Ints
    stored: Ints
    columns: Ints
    given: Bools

    @property
    def position(self) -> int:
        """The first position that the slot reads by itself."""
        return len(self.inputs)


@dataclass(frozen=True, slots=True)
class Primer:
    """Makes prompts for a model: its step rule and token ring; see :func:`prompt`."""

    lead: int
    delays: tuple[int, ...]
    start: tuple[int, ...]
    span: int

    def __call__(self, role: Sequence[int], voice: Voice | None = None) -> Prompt | None:
        """What a newcomer reads first, given its role's tokens; None where the model has none."""
        if not self.lead:
            return None
        return prompt(role, delays=self.delays, start=self.start, span=self.span, voice=voice)


def role(text: str) -> str:
    """The role as the model was trained to read it; nothing for nothing."""
    text = text.strip()
    if not text or (text.startswith("<system>") and text.endswith("<system>")):
        return text
    return f"<system> {text} <system>"


def prompt(
    role_tokens: Sequence[int],
    *,
    delays: Sequence[int],
    start: Sequence[int],
    span: int,
    voice: Voice | None = None,
    voice_codes: Sequence[Sequence[int]] = (),
) -> Prompt:
    """The prompt of a voice and a role.

    Args:
        role_tokens: the tokenised :func:`role`; may be empty.
        delays: frames by which each token row lags.
        start: each row's start token.
        span: columns of the token ring.
        voice: a stored one, or
        voice_codes: frames of the agent's eight codes, or neither.
    """
    frames = [(PAD, *codes, *SINE) for codes in voice_codes]
    for tokens in ([PAD] * SILENT_FRAMES, role_tokens, [PAD] * SILENT_FRAMES):
        frames += [(token, *SILENCE, *SINE) for token in tokens]

    before = 0 if voice is None else voice.count + 1
    position = before + len(frames) - 1
    lags = np.asarray(delays)
    column = np.arange(position + 1 + lags.max())
    rows = np.arange(len(lags))
    columns = np.zeros((len(lags), len(column)), np.int64)
    for call, frame in enumerate(frames, before):
        columns[rows, call + lags] = frame
    if voice is None:
        columns = np.where(column <= lags[:, None], np.asarray(start)[:, None], columns)
        stored = np.full(position, -1, np.int64)
    else:
        left = (column >= voice.count) & (column <= voice.count + lags[:, None])
        columns = np.where(left, voice.columns[:, column % span], columns)
        read = column[:position]
        stored = np.where(read < voice.count, voice.first + read, -1)
    around = column[position:]
    ring, given = np.zeros((2, len(lags), span), np.int64)
    ring[:, around % span] = columns[:, around]
    given[:, around % span] = around <= position + lags[:, None]
    return Prompt(np.ascontiguousarray(columns[:, :position].T), stored, ring, given > 0)
