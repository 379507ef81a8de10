"""API keys: what is kept of them, and that a running server follows."""

from __future__ import annotations

import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from server import keys
from server.cli import main
from server.keys import Keys, KeysProblem


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "keys.json"


def make(path: Path, name: str = "") -> tuple[str, str]:
    key, secret = keys.create(path, name, 0)
    return key.id, secret


def test_a_key_is_kept_as_its_hash_and_for_its_owner_only(path: Path) -> None:
    key, secret = keys.create(path, "the shop", 1_700_000_000)
    assert len(secret) >= len(keys.PREFIX) + 43  # 256 bits
    assert secret not in path.read_text()
    assert hashlib.sha256(secret.encode()).hexdigest() in path.read_text()
    assert keys.read(path) == (key,)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_until_there_is_a_key_none_is_asked_for(path: Path) -> None:
    running = Keys(path)
    assert not running.required
    _, secret = make(path)
    assert running.required
    assert running.find(secret) is not None


def test_a_running_server_takes_a_new_key_and_refuses_a_revoked_one_at_once(path: Path) -> None:
    (first, first_secret), running = make(path), Keys(path)
    assert running.find(first_secret) is not None
    second, second_secret = make(path)
    found = running.find(second_secret)
    assert found is not None
    assert found.id == second
    assert keys.revoke(path, first)
    assert running.find(first_secret) is None
    assert not running.has(first)
    assert running.find(second_secret) is not None
    assert not keys.revoke(path, first)


def test_revoking_the_last_key_opens_nothing(path: Path) -> None:
    (key, secret), running = make(path), Keys(path)
    keys.revoke(path, key)
    for each in (running, Keys(path)):
        assert each.required
        assert each.find(secret) is None


@pytest.mark.parametrize("spoilt", ["gone", "no JSON", "no keys", "not readable"])
def test_a_file_that_is_spoilt_while_the_server_runs_locks_it(path: Path, spoilt: str) -> None:
    (_, secret), running = make(path), Keys(path)
    path.unlink()
    if spoilt == "not readable":
        path.mkdir()
    elif spoilt != "gone":
        path.write_text("{" if spoilt == "no JSON" else '[{"id": 1}]')
    assert running.required
    assert running.find(secret) is None


def test_a_file_that_holds_no_keys_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("{}")
    for use in (keys.read, Keys, lambda path: keys.create(path, "", 0)):
        with pytest.raises(KeysProblem, match=f"keys_file: {path}"):
            use(path)


@pytest.mark.parametrize("shown", ["", "parley_", "wrong", "\udcff", "é" * 10_000])
def test_what_is_no_key_is_none(path: Path, shown: str) -> None:
    make(path)
    assert Keys(path).find(shown) is None


def test_keys_made_at_the_same_time_are_all_kept(path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = dict(pool.map(make, [path] * 20))
    kept = keys.read(path)
    assert kept is not None
    assert {key.id for key in kept} == set(made)


def test_the_command_makes_lists_and_revokes(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--keys-file", str(path)]
    assert main(["keys", "create", "--name", "the shop", *place]) == 0
    secret = capsys.readouterr().out.strip()
    found = Keys(path).find(secret)
    assert found is not None
    assert found.name == "the shop"
    assert main(["keys", "list", *place]) == 0
    listed = capsys.readouterr().out
    assert listed.split()[0] == found.id
    assert "the shop" in listed
    assert secret not in listed
    assert main(["keys", "revoke", found.id, *place]) == 0
    assert main(["keys", "revoke", found.id, *place]) == 1
    assert f"no key has the id {found.id}" in capsys.readouterr().err


def test_the_command_finds_the_file_where_the_server_does(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "parley.toml"
    config.write_text(f'keys_file = "{path}"')
    assert main(["keys", "create", "--config", str(config)]) == 0
    monkeypatch.setenv("PARLEY_KEYS_FILE", str(path))
    assert main(["keys", "create"]) == 0
    kept = keys.read(path)
    assert kept is not None
    assert len(kept) == 2
    monkeypatch.delenv("PARLEY_KEYS_FILE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    assert main(["keys", "create"]) == 0
    assert (tmp_path / "home/parley/keys.json").exists()


def test_a_folder_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "keys.json"
    assert main(["keys", "create", "--keys-file", os.fspath(place)]) == 1
    assert "parley: keys_file: cannot" in capsys.readouterr().err
