"""How an engine reads what it is told to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from engine.contract import EngineError

Options = TypeVar("Options")


def read(engine: str, given: Mapping[str, Any], kind: type[Options]) -> Options:
    """Options as they come from a file or a command line, as a ``kind``.

    Raises:
        EngineError: an option is unknown or does not fit; the message names it.
    """
    try:
        return msgspec.convert(dict(given), kind)
    except msgspec.ValidationError as error:
        raise EngineError(f"{engine}: {error}") from None
