"""How a turn's transcript grows: only what will not change any more is given out.

A recogniser reads a growing take again and again and changes its mind about the end of it. Words on
which two readings in a row agree, but for the last few of them, stand. Should the final
reading disagree with words given out all the same, they are kept: joined deltas are the transcript.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.contract import Delay


HELD: dict[Delay, int] = {"minimal": 0, "low": 1, "medium": 2, "high": 4, "xhigh": 8}
"""Words at the end of what two readings agree on that are held back all the same."""


class Transcript:
    """The transcript of one turn.

    Args:
        held: words that are held back, see ``HELD``.
    """

    def __init__(self, held: int = HELD["low"]) -> None:
        self._held = held
        self._given: list[str] = []
        self._last: list[str] = []

    @property
    def text(self) -> str:
        """What was given out so far."""
        return " ".join(self._given)

    def partial(self, text: str) -> str:
        """Takes a reading of the turn so far; returns what it adds for certain, or nothing."""
        words, last = text.split(), self._last
        self._last = words
        agreed = [word for word, _ in _agreeing(words, last)]
        agreed = agreed[: max(0, len(agreed) - self._held)]
        if agreed[: len(self._given)] != self._given:
            return ""
        return self._give(agreed[len(self._given) :])

    def complete(self, text: str) -> str:
        """The whole transcript, given ``text`` as the final reading; changes nothing."""
        words = text.split()
        return " ".join(self._given + words[_place_after(self._given, words) :])

    def finish(self, text: str) -> str:
        """Takes the final reading; returns what is left to give out."""
        words = text.split()
        return self._give(words[_place_after(self._given, words) :])

    def _give(self, words: list[str]) -> str:
        space = " " if self._given and words else ""
        self._given += words
        return space + " ".join(words)


def _agreeing(one: list[str], other: list[str]) -> list[tuple[str, str]]:
    pairs = []
    for pair in zip(one, other, strict=False):
        if pair[0] != pair[1]:
            break
        pairs.append(pair)
    return pairs


def _place_after(given: list[str], words: list[str]) -> int:
    """Where ``words`` go on after what ``given`` already says."""
    if words[: len(given)] == given:
        return len(given)
    matcher = SequenceMatcher(None, _plain(given), _plain(words), autojunk=False)
    *_, last = [None, *(block for block in matcher.get_matching_blocks() if block.size)]
    if last is None:
        return min(len(given), len(words))
    return min(last.b + len(given) - last.a, len(words))


def _plain(words: list[str]) -> list[str]:
    return [word.strip(".,;:!?").lower() for word in words]
