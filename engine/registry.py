"""Engines by name.

Three come with the application and are imported when they are asked for; other packages add theirs
by an entry point in the group ``parley.engines``, which names a callable that takes the options (a
mapping) and returns an ``Engine``. Where its module has a ``fetch``, that gets the weights.

Of any engine the option ``transcriber`` (a :class:`Transcriber`) names another that says what its
callers said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from engine.checked import Checked
from engine.contract import Engine, EngineError
from engine.remote.proxy import RemoteEngine, SharedEngine
from engine.transcribed import Transcribed

_GROUP = "parley.engines"
_BUILT_IN = (
    EntryPoint("cascade", "engine.cascade.engine:CascadeEngine", _GROUP),
    EntryPoint("duplex", "engine.duplex.engine:create", _GROUP),
    EntryPoint("simulated", "engine.simulated:create", _GROUP),
)

_WEIGHTS = {"cascade": "engine.weights"}
"""Where a built-in engine's ``fetch`` is, so that fetching need not import the engine."""

_COSTS = {"cascade": "engine.cascade.costs"}
"""Where an engine's stages are measured one by one."""

_BENCHES = {"duplex": "engine.duplex.bench"}
"""What measures an engine on the device that it runs on."""

_LISTENING = {"cascade": {"listens_only": True}}
"""What tells a built-in engine that it is only listened with."""

Progress = Callable[[str], None]
"""Told, line by line, what is being done."""


class Transcriber(Struct, frozen=True, forbid_unknown_fields=True):
    """The engine that transcribes what another one's callers say, and its options."""

    name: str
    options: dict[str, Any] = {}


def names() -> tuple[str, ...]:
    """The engines that can be created, sorted."""
    return tuple(sorted(_known()))


def create(
    name: str, options: Mapping[str, Any], *, own_process: bool, doors: Path | None = None
) -> Engine:
    """Makes engine ``name``, not yet started; ``own_process`` gives it one, and its transcriber.

    Into the folder ``doors``, if there is one, come the sockets by which :func:`join` shares it.

    Raises:
        EngineError: no such engine, or it cannot be made with these options; in a process of its
            own that shows when it starts.
    """

    def make(part: str, name: str, options: Mapping[str, Any]) -> Engine:
        entry = _entry(name)
        if own_process:
            return RemoteEngine(name, options, door=str(doors / part) if doors else "")
        return Checked(entry.load()(options))

    return _whole(name, options, make)


def join(name: str, options: Mapping[str, Any], doors: Path) -> Engine:
    """Engine ``name``, as another process has created it with the same ``options`` and ``doors``.

    Raises:
        EngineError: as :func:`create`.
    """
    return _whole(name, options, lambda part, name, _: SharedEngine(name, str(doors / part)))


def _whole(
    name: str, options: Mapping[str, Any], make: Callable[[str, str, Mapping[str, Any]], Engine]
) -> Engine:
    """The engine and, where the options name one, its transcriber: each made by ``make``."""
    if "transcriber" not in options:
        return make("engine", name, options)
    own = dict(options)
    try:
        beside = msgspec.convert(own.pop("transcriber"), Transcriber)
    except msgspec.ValidationError as error:
        raise EngineError(f"transcriber: {error}") from None
    listening = _LISTENING.get(beside.name, {}) | beside.options
    return Transcribed(make("engine", name, own), make("transcriber", beside.name, listening))


def fetch(name: str, progress: Progress) -> None:
    """Gets the weights of engine ``name``, where it has any to get. Blocks.

    Raises:
        EngineError: no such engine, or its weights cannot be had.
    """
    module = _WEIGHTS.get(name, _entry(name).module)
    get = getattr(import_module(module), "fetch", None)
    if get is not None:
        get(progress)


def costs(name: str, options: Mapping[str, Any]) -> dict[str, list[float]]:
    """Seconds that each stage of engine ``name`` takes alone, where it can tell. Blocks.

    Raises:
        EngineError: no such engine, or it cannot be started.
    """
    _entry(name)
    if (module := _COSTS.get(name)) is None:
        return {}
    measured: dict[str, list[float]] = asyncio.run(import_module(module).costs(options))
    return measured


def bench(name: str, arguments: Sequence[str]) -> int:
    """Measures what engine ``name`` costs on this machine's device; returns an exit status.

    Raises:
        EngineError: no such engine, nothing to measure, or what it needs is not installed.
    """
    _entry(name)
    if (module := _BENCHES.get(name)) is None:
        raise EngineError(f"{name}: has no device to measure")
    try:
        status: int = import_module(module).main(arguments)
    except ModuleNotFoundError as error:
        message = f"{name}: {error.name} is missing; install parley-voice[gpu]"
        raise EngineError(message) from error
    return status


def _known() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in (*entry_points(group=_GROUP), *_BUILT_IN)}


def _entry(name: str) -> EntryPoint:
    known = _known()
    if name not in known:
        raise EngineError(f"engine: expected one of {', '.join(sorted(known))}, got {name}")
    return known[name]
