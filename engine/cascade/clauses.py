"""A reply's text, cut into the clauses that are spoken one by one.

The voice is given a clause at a time, so where a clause ends decides two things at once: how soon
the caller hears something, and how natural the melody is. The first clause is therefore short
(five words, or the first punctuation), every later one is as long as sense allows: speaking it
takes longer than making the next.

Joined by single spaces the clauses are the speakable text, however the text arrived.
"""

from __future__ import annotations

import re

from engine.cascade.speakable import Speakable, SpokenWord

FIRST_WORDS = 5
SENTENCE_WORDS = 3
"""A shorter sentence is spoken together with what follows it: three words alone sound chopped."""
PHRASE_WORDS = 7
"""Words from which a comma is a place to breathe."""
LONGEST_WORDS = 24
"""About eight seconds of speech: a voice is given no more at once."""
LONGEST_CHARACTERS = 240
"""The same for words that are none."""

_CLOSING = "[\"')\\]\u2019\u201d]*\\Z"
_SENTENCE_END = re.compile("[.!?\u2026]+" + _CLOSING)
_PHRASE_END = re.compile("[,;:\u2013\u2014]+" + _CLOSING)
_ABBREVIATION = re.compile(
    r"\W*(mr|mrs|ms|dr|prof|sr|jr|st|mt|vs|etc|no|vol|fig|approx|dept"
    r"|e\.g|i\.e|a\.m|p\.m|[a-hj-z])\.",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\(?\d{1,2}[.)]")
"""An entry's number at the start of a line."""


class Clauses:
    """Cuts a growing reply into clauses.

    Args:
        longest: words after which the reply ends at the next end of a sentence.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._speakable = Speakable()
        self._words: list[str] = []
        self._given = 0
        self._spoken = 0
        self.full = False
        """Whether the reply has reached its longest; nothing more is taken."""

    @property
    def calls(self) -> bool:
        """Whether a tool call was written into the text, which is not spoken."""
        return self._speakable.calls

    def push(self, text: str) -> list[str]:
        """The clauses that ``text`` completes."""
        return self._take(self._speakable.push(text))

    def finish(self) -> list[str]:
        """The clauses that are left at the text's end."""
        clauses = self._take(self._speakable.finish())
        return clauses + self._close()

    def _take(self, words: list[SpokenWord]) -> list[str]:
        clauses: list[str] = []
        for word in words:
            if self.full:
                break
            characters = sum(map(len, self._words)) + len(word.text)
            if word.new_line or characters > LONGEST_CHARACTERS:
                clauses += self._close()
            self._words.append(word.text)
            self._spoken += 1
            sentence = self._ends_sentence(word)
            if self._is_clause(word.text, sentence):
                clauses += self._close()
            if (self._spoken >= self._longest and sentence) or self._spoken >= 2 * self._longest:
                self.full = True
                clauses += self._close()
        return clauses

    def _is_clause(self, word: str, sentence: bool) -> bool:
        phrase = _PHRASE_END.search(word) is not None
        count = len(self._words)
        if self._given == 0:
            return count >= FIRST_WORDS or sentence or phrase
        if count >= LONGEST_WORDS:
            return True
        return (sentence and count >= SENTENCE_WORDS) or (phrase and count >= PHRASE_WORDS)

    def _ends_sentence(self, word: SpokenWord) -> bool:
        if _SENTENCE_END.search(word.text) is None or _ABBREVIATION.fullmatch(word.text):
            return False
        entry = len(self._words) == 1 and (word.new_line or self._spoken == 1)
        return not (entry and _NUMBER.fullmatch(word.text))

    def _close(self) -> list[str]:
        if not self._words:
            return []
        clause, self._words = " ".join(self._words), []
        self._given += 1
        return [clause]
