"""``compose.yaml`` as its variables make it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]


def compose(**variables: str) -> dict[str, Any]:
    """The whole file, with ``variables`` in their places."""
    text = (ROOT / "compose.yaml").read_text()
    for name, value in variables.items():
        for form in (f"${{{name}}}", f"${{{name}:?}}"):
            text = text.replace(form, value)
    read: dict[str, Any] = yaml.safe_load(text)
    return read
