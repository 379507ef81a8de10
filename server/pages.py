"""The pages that people see: where they lie, and how they are filled in."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import jinja2

WEB = Path(str(resources.files("web")))
"""The folder of templates and of what browsers load."""

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(WEB / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
)


def render(template: str, **values: str) -> str:
    """A page's HTML."""
    return _TEMPLATES.get_template(template).render(values)
