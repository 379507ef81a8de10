"""Every public pitfall of Realtime and GPT-Live has its line, and each line its tests."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/pitfalls.md").read_text()
NUMBERS = set(range(1, 41))
LINES = dict(re.findall(r"^\| P(\d+) \|(.+)$", PAGE, re.MULTILINE))
TEST = r"`([a-z]+/\w+\.py)::(\w+)`"


def names(file: str) -> set[str]:
    """The tests in ``file``, a path below ``tests``."""
    tree = ast.parse((ROOT / "tests" / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def test_no_pitfall_is_left_out() -> None:
    assert {int(number) for number in LINES} == NUMBERS


def test_at_most_three_are_argued_away() -> None:
    assert sum(not re.search(TEST, line) for line in LINES.values()) <= 3


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(TEST, PAGE)
    assert len(named) > len(LINES)
    assert [f"{file}::{test}" for file, test in named if test not in names(file)] == []
