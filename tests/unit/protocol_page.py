"""``docs/protocol.md`` as data, and what the types of the ``openai`` package say must be in it."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/protocol.md"

Rows = dict[str, list[str]]
"""The cells behind each name."""


def rows(title: str) -> Rows:
    """The rows of the page's part of that title."""
    (part,) = (part for part in re.split("^# ", PAGE.read_text(), flags=re.M) if title in part[:60])
    lines = [line for line in part.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [row[0].strip("`") for row in cells]
    assert len(set(names)) == len(names)
    return {name: row[1:] for name, row in zip(names, cells, strict=True)}


def of_status(table: Rows, status: str) -> set[str]:
    """The rows that say so."""
    return {name for name, row in table.items() if row[-2] == status}


def named(cell: str) -> set[str]:
    """What a cell names."""
    return set(re.findall(r"`([^`]+)`", cell))


def check_event(table: Rows, event: str, there: set[str]) -> None:
    """An event's row names its fields ``there``, but for those that have rows of their own."""
    own = {row.removeprefix(f"{event}.") for row in table if row.startswith(f"{event}.")}
    assert named(table[event][0]) | (own & there) == there


def check_besides(table: Rows, events: Collection[str], objects: set[str]) -> None:
    """Besides events, and fields of theirs, the table has the rows of ``objects`` and no other."""
    besides = {row for row in table if row.startswith(tuple(f"{name}." for name in events))}
    assert set(table) - set(events) - (besides - objects) == objects


def check_shown(row: list[str]) -> None:
    """What is done is shown by tests that exist; whatever a row names exists."""
    shown = re.findall(r"`(tests/[^`]+)::(test_\w+)`", row[-1])
    assert shown or row[-2] != "done"
    for path, test in shown:
        assert test in functions_of(path), f"{path} has no {test}"


@cache
def functions_of(path: str) -> set[str]:
    """The functions that a file defines."""
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def kinds(annotation: Any, opened: tuple[type, ...] = ()) -> list[Any]:
    """The alternatives of a type, null left out; ``opened`` containers by what is in them."""
    origin = get_origin(annotation)
    if origin is Annotated or origin in opened:
        return kinds(get_args(annotation)[0], opened)
    if origin in (Union, types.UnionType):
        return [kind for one in get_args(annotation) for kind in kinds(one, opened)]
    return [] if annotation is type(None) else [annotation]


def models(annotation: Any, opened: tuple[type, ...] = ()) -> list[type[BaseModel]]:
    """Those of the alternatives that have fields."""
    return [
        k for k in kinds(annotation, opened) if isinstance(k, type) and issubclass(k, BaseModel)
    ]


def tag(model: type[BaseModel], name: str = "type") -> str:
    """The value by which a union tells ``model``."""
    return str(get_args(kinds(model.model_fields[name].annotation)[0])[0])


def fields(model: type[BaseModel], path: str, within: Collection[str]) -> Iterator[str]:
    """A row's name for each field of ``model``, deeper where ``within`` says so."""
    for name, field in model.model_fields.items():
        inner = models(field.annotation) if name in within else []
        if not inner:
            yield f"{path}.{name}"
        for each in inner:
            if len(inner) == 1:
                yield from fields(each, f"{path}.{name}", within)
                continue
            at = f"{path}.{name}.{tag(each)}"
            yield at
            yield from (row for row in fields(each, at, within) if row != f"{at}.type")


def events(unions: Iterable[Any], common: Collection[str]) -> dict[str, set[str]]:
    """Every event of ``unions``, and its fields but for the ``common`` ones."""
    return {
        tag(model): set(model.model_fields) - set(common)
        for union in unions
        for model in models(union)
    }
