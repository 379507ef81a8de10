"""The terminal: captions as lines, and below them one row of levels and what is being said.

Where the output is no terminal there are only the lines.
"""

from __future__ import annotations

import shutil
from typing import TextIO

from server.talk.captions import Captions, Line
from server.talk.levels import Meter, bar

_BAR = 10
_EVERY = 5
"""Steps between two drawings of the row."""


class Screen:
    """Shows one conversation.

    Args:
        out: where to.
        captions: of the conversation.
    """

    def __init__(self, out: TextIO, captions: Captions) -> None:
        self._out = out
        self._live = out.isatty()
        self._captions = captions
        self._steps = 0
        self.you = Meter()
        self.parley = Meter()

    def line(self, line: Line) -> None:
        """Shows a line, above the row."""
        self._clear()
        print(line, file=self._out, flush=True)

    def step(self) -> None:
        """Another step of sound has passed."""
        self._steps += 1
        if self._live and self._steps % _EVERY == 0:
            self._clear()
            self._out.write(self._row())
            self._out.flush()

    def close(self) -> None:
        """Leaves the terminal to others; says how loud each side was."""
        you, parley = self.you.loudest, self.parley.loudest
        self.line(Line(None, f"loudest: you {you:.0f} dB, parley {parley:.0f} dB"))

    def _row(self) -> str:
        levels = f"you {bar(self.you.look(), _BAR)}  parley {bar(self.parley.look(), _BAR)}  "
        room = max(0, shutil.get_terminal_size().columns - len(levels) - 1)
        running = self._captions.running
        return levels + running[max(0, len(running) - room) :]

    def _clear(self) -> None:
        if self._live:
            self._out.write("\r\x1b[K")
