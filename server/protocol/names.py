"""The names that stock clients send, and which of them this engine answers to.

A client gets its own spelling back, always: clients compare. An operator's tables
(:class:`server.settings.Names`) say which local name a stock one means, the empty one being the
engine's default; a local name means itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.requests import RequestError
from server.settings import local_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.contract import EngineInfo
    from server.settings import Names


class LocalNames:
    """Resolves a session's names.

    Args:
        tables: the operator's.
        info: the engine that answers.
        model: the name the session was asked for by.
    """

    def __init__(self, tables: Names, info: EngineInfo, model: str) -> None:
        self._tables = tables
        self._info = info
        asked = local_name(tables.models, model)
        self._models = {info.name, *info.models, model, model if asked is None else asked}

    def check_model(self, name: str, at: str) -> None:
        """Lets pass any name of the model that runs.

        Raises:
            RequestError: it means another model, and a session's model never changes.
        """
        if name not in self._models and local_name(self._tables.models, name) not in self._models:
            raise RequestError(
                "invalid_value",
                f"Invalid '{at}': the model of a session cannot be changed, got {name!r}.",
                at,
            )

    def voice(self, name: str, at: str) -> str:
        """The engine's voice that ``name`` means; empty only if it has none to choose from.

        Raises:
            RequestError: there is no such voice.
        """
        local = name if name in self._info.voices else local_name(self._tables.voices, name)
        if local is None:
            known = ", ".join((*self._info.voices, *self._tables.voices))
            raise RequestError(
                "invalid_value", f"Invalid '{at}': expected one of {known}; got {name!r}.", at
            )
        return self.local_voice(local)

    def local_voice(self, voice: str) -> str:
        """``voice``, the empty one standing for the engine's first."""
        return voice or next(iter(self._info.voices), "")

    def check_transcriber(self, name: str, at: str) -> None:
        """Lets pass any name of the recogniser.

        Raises:
            RequestError: there is no such transcription model, or it would tell speakers apart.
        """
        tables = self._tables.transcription
        if name.endswith("-diarize"):
            message = f"Invalid '{at}': this server does not tell speakers apart, got {name!r}."
            raise RequestError("invalid_value", message, at)
        if name != self._info.name and local_name(tables, name) is None:
            known = ", ".join((self._info.name, *tables))
            converses = local_name(self._tables.models, name) is not None
            why = ", which converses: the transcription model is meant here" if converses else ""
            raise RequestError(
                "invalid_value", f"Invalid '{at}': expected one of {known}; got {name!r}{why}.", at
            )

    def check_language(self, language: str, at: str) -> None:
        """Lets pass what the recogniser understands, whatever the region (``en``, ``en-GB``).

        Raises:
            RequestError: it does not.
        """
        if language and not self._understands(language):
            known = ", ".join(self._info.languages)
            message = f"Invalid '{at}': expected one of {known}; got {language!r}."
            raise RequestError("invalid_value", message, at)

    def language_of(self, languages: Sequence[str], at: str) -> str:
        """The one of ``languages`` that is spoken, as far as they say; empty if it may be several.

        Raises:
            RequestError: the recogniser understands none of them.
        """
        known = [language for language in languages if self._understands(language)]
        if languages and not known:
            self.check_language(languages[0], at)
        return known[0] if len(known) == 1 else ""

    def _understands(self, language: str) -> bool:
        plain = language.partition("-")[0].lower()
        return not self._info.languages or plain in self._info.languages
