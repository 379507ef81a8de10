"""The command ``parley``: each subcommand is one function, and imports what it needs itself.

An operator's mistake is answered with one line that says what to change, and status 2; what cannot
be had (a model, a port) with status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from server.settings import ServerSettings

USAGE = """\
usage: parley COMMAND [options]

  parley serve           answer calls from browsers and programs; --help lists the settings
  parley doctor          say what keeps callers from talking; takes the settings of serve
  parley talk            call a server from the terminal, with a microphone or a WAV file
  parley models fetch    download the default models, once; afterwards no network is needed
  parley models list     show which engines there are
  parley keys create     make an API key; from the first one on, every caller needs one
  parley keys list       show which keys there are
  parley keys revoke     take a key back, by its id
  parley bench turns     measure how fast turns are answered on this machine
  parley bench sockets   measure what a session over a WebSocket costs, beside a bare echo
  parley bench ticks     measure whether one clock serves many duplex callers in time
  parley bench duplex    measure how many callers stream both ways in time, beside a bare server
  parley bench webrtc    measure what calls over WebRTC cost, beside stock aiortc
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for words, run in _COMMANDS.items():
        if tuple(given[: len(words)]) == words:
            return run(given[len(words) :])
    if given == ["--version"]:
        print("parley", metadata.version("parley-voice"))
        return 0
    asked_for_help = given[:1] in (["--help"], ["-h"], ["help"])
    print(USAGE, end="", file=sys.stdout if asked_for_help else sys.stderr)
    return 0 if asked_for_help else 2


def _serve(arguments: Sequence[str]) -> int:
    from server import logs
    from server.settings import SettingsProblem, load

    try:
        settings = load(arguments)
    except SettingsProblem as problem:
        return _complain(problem, 2)
    logs.configure(settings.log_level, settings.log_format)
    if not settings.media_workers:
        return _run(settings, None)
    with tempfile.TemporaryDirectory(prefix="parley-") as folder:
        return _run(settings, Path(folder))


def _run(settings: ServerSettings, shared: Path | None) -> int:
    """Serves; ``shared`` is the folder of what workers and front have in common."""
    from engine import registry
    from engine.contract import EngineError
    from server.keys import KeysProblem
    from server.serve import CannotListen, serve
    from server.transport.webrtc.opus import LibraryMissing
    from server.workers.pool import CannotStart

    try:
        engine = registry.create(
            settings.engine.name,
            settings.engine.plain(),
            own_process=not settings.single_process,
            doors=shared,
        )
    except EngineError as problem:
        return _complain(problem, 2)
    try:
        asyncio.run(serve(engine, settings, lambda line: print(line, flush=True), shared))
    except (CannotListen, CannotStart, LibraryMissing, KeysProblem, EngineError) as problem:
        return _complain(problem, 1)
    return 0


def _doctor(arguments: Sequence[str]) -> int:
    from server.doctor import command

    return command.main(arguments)


def _talk(arguments: Sequence[str]) -> int:
    from server.talk import command

    return command.main(arguments)


def _fetch(arguments: Sequence[str]) -> int:
    from engine import registry
    from engine.contract import EngineError

    parser = argparse.ArgumentParser("parley models fetch")
    parser.add_argument("engine", nargs="?", default="cascade", help="whose models")
    try:
        registry.fetch(parser.parse_args(arguments).engine, print)
    except EngineError as problem:
        return _complain(problem, 1)
    return 0


def _list(arguments: Sequence[str]) -> int:
    from engine import registry

    for name in registry.names():
        print(name)
    return 0


def _keys(command: str) -> Callable[[Sequence[str]], int]:
    def run(arguments: Sequence[str]) -> int:
        from server import keys_command
        from server.keys import KeysProblem
        from server.settings import SettingsProblem

        try:
            return keys_command.main(command, arguments)
        except SettingsProblem as problem:
            return _complain(problem, 2)
        except KeysProblem as problem:
            return _complain(problem, 1)

    return run


def _bench_turns(arguments: Sequence[str]) -> int:
    from server.bench import turns

    return turns.main(arguments)


def _bench_sockets(arguments: Sequence[str]) -> int:
    from server.bench import sockets

    return sockets.main(arguments)


def _bench_duplex(arguments: Sequence[str]) -> int:
    from server.bench import duplex

    return duplex.main(arguments)


def _bench_webrtc(arguments: Sequence[str]) -> int:
    from server.bench.webrtc import command

    return command.main(arguments)


def _bench_ticks(arguments: Sequence[str]) -> int:
    from server.bench import ticks

    return ticks.main(arguments)


def _bench_reception(arguments: Sequence[str]) -> int:
    from server.bench import reception

    return reception.main(arguments)


def _bench_device(arguments: Sequence[str]) -> int:
    from engine import registry
    from engine.contract import EngineError

    try:
        return registry.bench("duplex", arguments)
    except EngineError as problem:
        return _complain(problem, 1)


def _complain(problem: Exception, status: int) -> int:
    print(f"parley: {problem}", file=sys.stderr)
    return status


_COMMANDS: dict[tuple[str, ...], Callable[[Sequence[str]], int]] = {
    ("serve",): _serve,
    ("doctor",): _doctor,
    ("talk",): _talk,
    ("models", "fetch"): _fetch,
    ("models", "list"): _list,
    ("keys", "create"): _keys("create"),
    ("keys", "list"): _keys("list"),
    ("keys", "revoke"): _keys("revoke"),
    ("bench", "turns"): _bench_turns,
    ("bench", "sockets"): _bench_sockets,
    ("bench", "ticks"): _bench_ticks,
    ("bench", "duplex"): _bench_duplex,
    ("bench", "webrtc"): _bench_webrtc,
    ("bench", "reception"): _bench_reception,
    ("bench", "device"): _bench_device,
}
