"""A model's answer as words that can be spoken.

Models write for screens: Markdown, tags, emoji, labels of who speaks. Read aloud they are noise,
so they are taken out here and nowhere else; the words themselves are never changed. What is left
is a sequence of words, each with whether a line began before it, because a list's entries need no
full stop.

Text arrives in pieces that end anywhere. A word is given out once what follows it cannot change it
any more, so the words do not depend on how the text was cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_REACH = 300
"""Characters that a link or tag may span; a bracket open for longer is just a bracket."""

_CALL = r"<\|?(?:tool_calls?|function_calls?|python_tag)\b|<function=|\[TOOL_CALLS\]"
"""How models begin a tool call that whoever serves them left in the text."""
_INSIDE = rf"[^<>]{{0,{_REACH}}}"
_LABELLED = rf"(?:(?<!\S)!)?\[(?P<label>[^\[\]]{{0,{_REACH}}})"
_TARGET = rf"\([^()\s]{{0,{_REACH}}}"
_UNFINISHED = (
    rf"(?P<unfinished><think>(?!.*</think>)|<(?:[/|]?(?:[A-Za-z]{_INSIDE})?)\Z"
    rf"|{_LABELLED.replace('?P<label>', '?:')}(?:\](?:{_TARGET})?)?\Z)|"
)
_UNITS = (
    rf"(?P<call>(?:{_CALL}).*)"
    rf"|(?P<markup><think>.*?(?:</think>|\Z)|<[/|]?[A-Za-z]{_INSIDE}>|{_LABELLED}\]{_TARGET}\))"
    r"|(?P<space>\s)|[^\s<\[!]+|."
)
_UNIT = re.compile(_UNITS, re.DOTALL)
_UNIT_SO_FAR = re.compile(_UNFINISHED + _UNITS, re.DOTALL)
"""Text from left to right; ``unfinished`` is what may still become a thought, a tag or a link."""

_LINE_MARK = re.compile(r"#{1,6}|[-*+•>]+|-{3,}|\*{3,}|_{3,}|`{3,}\S*|~{3,}\S*|\|?[-:|]{3,}\|?")
_LABEL = re.compile(r"\W*(assistant|system|user|human|ai|bot):\W*", re.IGNORECASE)
_EMPHASIS = re.compile(r"(?<!\w)[*_]+|[*_]+(?!\w)|\*{2,}|~~+|`+")
_PICTURE = re.compile(
    "[\U0001f000-\U0001faff\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\u200d\u20e3]"
)


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """A word without its spaces; ``new_line`` where it is the first of a line."""

    text: str
    new_line: bool


class Speakable:
    """Turns a growing text into its speakable words.

    Attributes:
        calls: a tool call was written into the text; nothing from there on is given out.
    """

    def __init__(self) -> None:
        self.calls = False
        self._held = ""
        self._line_start = True
        self._new_line = False

    def push(self, text: str) -> list[SpokenWord]:
        """The words that ``text`` completes."""
        if self.calls:
            return []
        self._held += text
        cut = 0
        for unit in _UNIT_SO_FAR.finditer(self._held):
            if unit["unfinished"] is not None:
                break
            if unit["space"] is not None or unit["call"] is not None:
                cut = unit.end()
        ready, self._held = self._held[:cut], self._held[cut:]
        return self._words(ready)

    def finish(self) -> list[SpokenWord]:
        """The words that were held back for what might have followed."""
        ready, self._held = self._held, ""
        return self._words(ready)

    def _words(self, text: str) -> list[SpokenWord]:
        text = _UNIT.sub(self._plain, text)
        words = []
        for piece in re.findall(r"\s+|\S+", text):
            if piece.isspace():
                if "\n" in piece:
                    self._line_start = self._new_line = True
            elif self._line_start and (_LINE_MARK.fullmatch(piece) or _LABEL.fullmatch(piece)):
                continue
            elif word := _PICTURE.sub("", _EMPHASIS.sub("", piece)).strip("|"):
                words.append(SpokenWord(word, self._new_line))
                self._line_start = self._new_line = False
        return words

    def _plain(self, unit: re.Match[str]) -> str:
        if unit["call"] is not None:
            self.calls = True
            return ""
        return unit["label"] or "" if unit["markup"] else unit[0]
