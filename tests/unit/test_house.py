"""The rooms keep apart, the files stay short, and the locks pin what they say."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOOR = {
    f"engine.{name}" for name in ("contract", "registry", "reading", "audio", "clock", "process")
}
PAGE = ROOT / "engine/contract.py"
"""The contract is one page on purpose, however long: it is read whole."""
LOCKS = [ROOT / "requirements" / name for name in ("runtime.txt", "dev.txt")]


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imported(source: Path) -> Iterator[str]:
    """Every module that ``source`` imports, anywhere in it; ``from a import b`` is ``a.b``."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def found(folder: str, forbidden: str, allowed: set[str] | None = None) -> list[str]:
    """Imports by ``folder`` from the package ``forbidden``, less those of ``allowed`` modules."""
    return [
        f"{source.relative_to(ROOT)}: {name}"
        for source in sources(folder)
        for name in imported(source)
        if name.split(".")[0] == forbidden
        and ".".join(name.split(".")[:2]) not in (allowed or set())
    ]


def test_the_engine_never_imports_the_server() -> None:
    assert found("engine", "server") == []


def test_the_server_passes_only_by_the_door() -> None:
    assert found("server", "engine", DOOR) == []


def test_the_web_is_no_python() -> None:
    assert [source.name for source in sources("web")] == ["__init__.py"]
    assert list(imported(ROOT / "web/__init__.py")) == []


def test_imports_name_their_package_in_full() -> None:
    assert [
        str(source.relative_to(ROOT))
        for folder in ("engine", "server")
        for source in sources(folder)
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
    ] == []


@pytest.mark.parametrize(
    ("folder", "limit"), [("engine", 350), ("server", 350), ("web", 350), ("tests", 600)]
)
def test_files_can_be_read_in_one_sitting(folder: str, limit: int) -> None:
    kinds = {".py", ".js", ".css", ".html"}
    files = [
        file
        for file in (ROOT / folder).rglob("*")
        if file.suffix in kinds and file != PAGE and "node_modules" not in file.parts
    ]
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in files}
    assert {file: length for file, length in lengths.items() if length > limit} == {}


def requirements(lock: Path) -> list[str]:
    """The lock's entries, each with its continuation lines joined and its comments left out."""
    lines = [line for line in lock.read_text().splitlines() if not line.lstrip().startswith("#")]
    return [entry for entry in "\n".join(lines).replace("\\\n", " ").splitlines() if entry.strip()]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_pins_public_releases_by_hash(lock: Path) -> None:
    entries = requirements(lock)
    assert len(entries) > 30
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==[0-9][0-9a-z.]*( +--hash=sha256:[0-9a-f]{64})+$", entry), (
            entry
        )


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_names_no_registry(lock: Path) -> None:
    assert re.findall(r"\w+://|--(?:extra-)?index-url|--find-links", lock.read_text()) == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_leaves_builds_for_gpus_out(lock: Path) -> None:
    names = {entry.split("==")[0] for entry in requirements(lock)}
    assert {
        n for n in names if n in {"torch", "triton", "onnxruntime-gpu"} or "nvidia" in n
    } == set()


def test_what_serves_is_the_same_in_both_locks() -> None:
    runtime, dev = (set(requirements(lock)) for lock in LOCKS)
    assert runtime <= dev
