"""Words in and out of a model's text row, by its SentencePiece tokenizer."""

from __future__ import annotations

import codecs
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from engine.duplex.prompt import role

SILENT = (0, 3)
"""Text tokens that say nothing: the end of padding, and padding."""


class Tokenizer:
    """A SentencePiece model."""

    def __init__(self, file: Path) -> None:
        self._pieces = SentencePieceProcessor(model_file=str(file))

    def role(self, text: str) -> list[int]:
        """The tokens of a role prompt; none for an empty one."""
        tokens: list[int] = self._pieces.encode(role(text))
        return tokens

    def speaker(self) -> Speaker:
        """Turns one caller's text tokens into words."""
        return Speaker(self._pieces)


class Speaker:
    """One caller's text so far."""

    def __init__(self, pieces: SentencePieceProcessor) -> None:
        self._pieces = pieces
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")

    def says(self, token: int) -> str:
        """What ``token`` adds; a character in several byte tokens comes with its last."""
        if token in SILENT or self._pieces.is_control(token):
            return ""
        piece: str = self._pieces.id_to_piece(token)
        if self._pieces.is_byte(token):
            return self._bytes.decode(bytes([int(piece[3:-1], 16)]))
        return self._bytes.decode(b"") + piece.replace("\u2581", " ")
