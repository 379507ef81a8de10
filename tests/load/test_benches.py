"""A short level of each bench: it runs, and twice its budget is kept."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.weights import Paths
from server.bench import sockets, ticks, turns
from server.bench.webrtc.level import JITTER_P99, VERIFIED
from tests.conftest import Tell
from tests.serving import COMMAND


def bench(tell: Tell, folder: Path, *arguments: str, timeout: float = 180) -> Any:
    """Runs ``parley bench``; tells what it printed, and returns what it wrote."""
    results = folder / "results.json"
    command = [str(COMMAND), "bench", *arguments, "--json", str(results)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert results.exists(), ran.stderr
    tell(ran.stdout)
    return json.loads(results.read_text())


@pytest.mark.timeout(200)
def test_a_session_over_a_socket_costs_a_few_bare_echoes(tell: Tell, tmp_path: Path) -> None:
    told = bench(tell, tmp_path, "sockets", "--sessions", "20", "--seconds", "4")
    echo, parley = told["results"]
    assert parley["missing"] == 0
    assert told["ratio"] <= 2 * sockets.BUDGET
    assert parley["p50"] - echo["p50"] < 0.1


@pytest.mark.timeout(200)
@pytest.mark.parametrize("protocol", ["live", pytest.param("realtime", marks=pytest.mark.full)])
def test_callers_who_stream_both_ways_hear_their_own(
    tell: Tell, tmp_path: Path, protocol: str
) -> None:
    told = bench(tell, tmp_path, "duplex", "--ramp", "8", "--seconds", "2", "--protocol", protocol)
    parley = next(level for level in told["levels"] if level["server"] == "parley")
    assert parley["lost"] == parley["errors"] == parley["wrong"] == parley["blocked"] == 0
    assert parley["frames"] >= 8 * 15
    assert any(level["server"] == "bare" for level in told["levels"])


@pytest.mark.full
@pytest.mark.timeout(200)
def test_callers_of_own_packets_hear_their_own(tell: Tell, tmp_path: Path) -> None:
    told = bench(tell, tmp_path, "webrtc", "--ramp", "2", "--seconds", "3", "--whole")
    ours, stock = told["levels"]
    assert (ours["server"], stock["server"]) == ("parley", "stock")
    assert min(ours["verified"], stock["verified"]) >= 2 * VERIFIED - 1


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ramp", [("1,10,25,40",), ("10,50,90", "--talk", "0.4")])
def test_a_ramp_of_calls_keeps_twice_its_budgets(
    tell: Tell, tmp_path: Path, ramp: tuple[str, ...]
) -> None:
    told = bench(tell, tmp_path, "webrtc", "--whole", "--ramp", *ramp, timeout=580)
    ours = [level for level in told["levels"] if level["server"] == "parley"]
    few, *_, many = ours
    assert many["took"]["threads"] == few["took"]["threads"]
    assert many["verified"] >= 2 * VERIFIED - 1
    assert many["jitter_p99"] <= 2 * JITTER_P99


@pytest.mark.full
@pytest.mark.timeout(200)
@pytest.mark.parametrize("protocol", ["live", "realtime"])
def test_callers_over_webrtc_hear_their_own(tell: Tell, tmp_path: Path, protocol: str) -> None:
    given = ("--ramp", "2", "--protocol", protocol, "--transport", "webrtc")
    (parley,) = bench(tell, tmp_path, "duplex", *given, "--seconds", "5")["levels"]
    assert parley["lost"] == parley["errors"] == parley["wrong"] == 0


@pytest.mark.full
@pytest.mark.timeout(400)
def test_a_ramp_of_a_minute(tell: Tell, tmp_path: Path) -> None:
    told = bench(tell, tmp_path, "duplex", "--ramp", "8,16,32,64", "--seconds", "5", timeout=380)
    assert told["verdict"]["clean"] >= 8


@pytest.mark.weights
@pytest.mark.flite
@pytest.mark.timeout(200)
def test_turns_are_answered_in_time(weights: Paths, tell: Tell, tmp_path: Path) -> None:
    quick = ("--sentences", "3", "--recordings", str(tmp_path))
    whole, paused = bench(tell, tmp_path, "turns", *quick)
    assert whole["turns"] == paused["turns"] == 6
    assert whole["unanswered"] == paused["unanswered"] == whole["early"] == 0
    assert whole["median"] <= 2 * turns.MEDIAN_BUDGET
    assert whole["p95"] <= 2 * turns.P95_BUDGET


def test_each_caller_of_one_clock_hears_itself(tell: Tell, tmp_path: Path) -> None:
    few = ("--sessions", "100", "--seconds", "3", "--tick-cost", "0.005,0.00005")
    told = bench(tell, tmp_path, "ticks", *few)
    assert told["wrong"] == told["missing"] == 0
    assert told["frames"] >= 100 * (told["ticks"] + told["late"] - 2) > 0
    assert told["took_p50"] >= 0.01


@pytest.mark.full
def test_a_thousand_callers_are_served_in_time_on_one_core(tell: Tell, tmp_path: Path) -> None:
    told = bench(tell, tmp_path, "ticks")
    assert told["wrong"] == told["missing"] == told["late"] == 0
    assert told["lateness_p99"] <= 2 * ticks.BUDGET
