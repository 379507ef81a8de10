"""The command line: its usage, its mistakes and their exit statuses."""

from __future__ import annotations

import pytest

from server.cli import main


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    for command in ("serve", "talk", "models fetch", "models list", "keys create", "bench turns"):
        assert f"parley {command} " in told


@pytest.mark.parametrize("arguments", [[], ["sreve"], ["models"], ["models", "burn"]])
def test_an_unknown_command_is_answered_with_the_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("usage: parley")


def test_the_engines_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list"]) == 0
    assert {"cascade", "simulated"} <= set(capsys.readouterr().out.split())


def test_a_setting_at_fault_is_named_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_PROT", "1")
    assert main(["serve"]) == 2
    assert capsys.readouterr().err == "parley: PARLEY_PROT: no such setting (environment)\n"


def test_an_option_that_is_not_known_is_named_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--limits.sesion", "1"]) == 2
    told = capsys.readouterr().err
    assert told == "parley: unrecognized arguments: --limits.sesion 1\n"


def test_a_command_names_an_option_that_it_does_not_know(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in (["models", "fetch"], ["keys", "create"]):
        with pytest.raises(SystemExit) as leaving:
            main([*command, "--bogus"])
        assert leaving.value.code == 2
        assert "unrecognized arguments: --bogus" in capsys.readouterr().err


def test_without_a_device_to_measure_its_bench_says_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "device"]) == 1
    told = capsys.readouterr().err
    assert "torch" in told or "no CUDA device" in told


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("parley 0.")


def test_an_engine_that_is_not_there_is_told_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["models", "fetch", "none"]) == 1
    assert "expected one of cascade, duplex, simulated, got none" in capsys.readouterr().err
