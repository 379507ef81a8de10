"""Engines by name."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import types
from importlib.metadata import EntryPoint

import pytest

from engine import registry
from engine.contract import EngineError
from engine.remote.proxy import RemoteEngine
from engine.transcribed import Transcribed


def outside(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Lets a package offer an engine."""
    entry = EntryPoint("outside", target, "parley.engines")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])


def test_the_engines_that_come_along_have_names() -> None:
    assert {"cascade", "duplex", "simulated"} <= set(registry.names())


def test_an_unknown_engine_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(EngineError, match=r"expected one of .*simulated.*, got nobody"):
        registry.create("nobody", {}, own_process=True)


def test_bad_options_are_refused_by_name() -> None:
    with pytest.raises(EngineError, match="unknown field `tikc`"):
        registry.create("simulated", {"tikc": 1}, own_process=False)


def test_the_duplex_engine_is_made_without_pytorch() -> None:
    program = (
        "import sys\n"
        "from engine import registry\n"
        "registry.create('duplex', {'model': 'any'}, own_process=False)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": "."})


def test_an_engine_gets_a_process_of_its_own_where_that_is_asked_for() -> None:
    assert isinstance(registry.create("simulated", {}, own_process=True), RemoteEngine)
    assert not isinstance(registry.create("simulated", {}, own_process=False), RemoteEngine)


def test_a_transcriber_gets_a_process_of_its_own_too_and_only_listens() -> None:
    options = {"model": "any", "transcriber": {"name": "cascade", "options": {"capacity": 7}}}
    made = registry.create("duplex", options, own_process=True)
    assert isinstance(made, Transcribed)
    model, recogniser = made._engine, made._recogniser
    assert isinstance(model, RemoteEngine)
    assert isinstance(recogniser, RemoteEngine)
    assert model._options == {"model": "any"}
    assert recogniser._options == {"listens_only": True, "capacity": 7}


@pytest.mark.parametrize(
    ("transcriber", "told"),
    [
        ("cascade", "transcriber: Expected `object`"),
        ({"nmae": "cascade"}, "unknown field `nmae`"),
        ({"name": "nobody"}, "expected one of .*, got nobody"),
    ],
)
def test_a_transcriber_that_cannot_be_is_refused(transcriber: object, told: str) -> None:
    with pytest.raises(EngineError, match=told):
        registry.create("simulated", {"transcriber": transcriber}, own_process=True)


def test_other_packages_offer_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    outside(monkeypatch, "engine.simulated:Simulated")
    assert "outside" in registry.names()
    engine = registry.create("outside", {"capacity": 7}, own_process=False)
    asyncio.run(engine.start())
    assert engine.info.capacity == 7


def test_weights_are_fetched_by_the_engines_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("outside_engine")
    monkeypatch.setattr(module, "fetch", lambda progress: progress("fetched"), raising=False)
    monkeypatch.setitem(sys.modules, "outside_engine", module)
    outside(monkeypatch, "outside_engine:make")
    told: list[str] = []
    registry.fetch("outside", told.append)
    assert told == ["fetched"]


def test_an_engine_without_weights_has_nothing_to_fetch() -> None:
    told: list[str] = []
    registry.fetch("simulated", told.append)
    assert told == []
