"""Does what the caller said end there, as the words tell?

The end-of-turn model hears the melody: at a pause in mid-sentence it takes half of the openings ("I
would like to") for complete, and a voice that falls nowhere for incomplete. A language model knows
better how sentences go on: the probability it gives to a mark or an end as the next token parts the
two. Of 40 sentences in two synthetic voices 36 are taken for complete so, and of their openings up
to a pause 12, most of them sentences of their own (melody alone: 28 and 22). What the recogniser
closes with a comma goes on, too. An answer of a word or two ("Tomorrow.") says nothing by its
grammar and is left to the melody.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.cascade.chat import ChatMessage

PART = 0.1
"""A sentence that ends with less goes on."""
WHOLE = 0.4
"""One that ends with more is complete."""
FEWEST_WORDS = 3
CANDIDATES = 40
"""The likeliest next tokens that are looked at."""
_MARKS = ".?!,;:…"


class NextToken(Struct, frozen=True):
    """A token that may come next."""

    token: str
    logprob: float


def verdict(said: str, ends: float | None) -> float | None:
    """The probability that the turn is complete, 0 or 1, or None where the words cannot tell.

    ``ends`` is the language model's, that ``said`` ends where it does.
    """
    if ends is None or len(said.split()) < FEWEST_WORDS:
        return None
    if said.endswith(",") or ends < PART:
        return 0.0
    return 1.0 if ends >= WHOLE else None


def unended(messages: Iterable[ChatMessage]) -> str:
    """``messages`` in ChatML up to the last word of the last, whose mark the recogniser made."""
    text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return text.removesuffix("<|im_end|>\n").rstrip(f"{_MARKS} ")


def end_probability(tokens: Iterable[NextToken]) -> float:
    """Of the next tokens, those that end a sentence or a clause: a mark, or the message's end."""
    return sum(
        math.exp(each.logprob)
        for each in tokens
        if not (text := each.token.strip()) or text.startswith(("<|", *_MARKS))
    )
