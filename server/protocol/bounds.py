"""How much a client may have the server keep, and give the engine again at every turn.

What is set here stays for a whole session, and a language model reads it with each reply, so far
more than a model's context is of no use to anyone. Text is counted in characters, as OpenAI's
errors count it. All the items of a conversation together are bounded by :mod:`server.items`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from server.requests import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server.conversation import Item

ITEM_TEXT = 64 * 1024
"""Of one item: more than anyone types or says in a turn, and some 16,000 tokens."""
PARTS = 64
"""Parts of one item."""
INSTRUCTIONS = 64 * 1024
"""Of a session or a response."""
TOOL_OUTPUT = 256 * 1024
"""Of one function's result: a program writes it, a document for one."""
TOOLS = 256 * 1024
"""All tools together, as JSON: 2 KiB for each of the 128 there may be."""
SESSION = 512 * 1024
"""A session object whole, as JSON: an update adds to what it does not name."""
INPUT = 512 * 1024
"""All the items of one response's own input: as much as a conversation holds."""


def check_text(text: str, limit: int, at: str) -> None:
    """Lets pass up to ``limit`` characters; ``at`` is the field's dotted path.

    Raises:
        RequestError: there are more.
    """
    check_length(len(text), limit, "characters", at)


def check_json(value: Any, limit: int, at: str) -> None:
    """Lets pass what takes up to ``limit`` bytes as JSON.

    Raises:
        RequestError: it takes more.
    """
    check_length(len(msgspec.json.encode(value)), limit, "bytes of JSON", at)


def check_input(items: Iterable[Item], at: str) -> None:
    """Lets pass items of up to ``INPUT`` characters together.

    Raises:
        RequestError: they hold more.
    """
    size = sum(
        sum(len(part.text or "") for part in item.content) + len(item.arguments) + len(item.output)
        for item in items
    )
    check_length(size, INPUT, "characters in all", at)


def check_length(size: int, limit: int, unit: str, at: str) -> None:
    """Lets pass up to ``limit`` of ``unit``.

    Raises:
        RequestError: there are more.
    """
    if size > limit:
        raise RequestError(
            "string_above_max_length",
            f"Invalid '{at}': too long; expected at most {limit} {unit}, got {size}.",
            at,
        )
