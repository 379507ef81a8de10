"""``parley talk`` on the command line: addresses, keys, and mistakes that are told in one line."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from server.cli import main
from server.talk import address

ENDPOINT = "http://host:8300/v1/realtime"


@pytest.mark.parametrize(
    "text",
    [
        "http://host:8300",
        "http://host:8300/",
        "http://host:8300/?token=secret",
        "http://host:8300/v1",
        "http://host:8300/v1/",
        "http://host:8300/v1/realtime",
        "http://host:8300/v1/realtime?token=secret#top",
    ],
)
def test_every_address_that_people_have_at_hand_leads_to_the_endpoint(text: str) -> None:
    read = address.read(text, None, None)
    assert str(read.url) == ENDPOINT and read.origin == "http://host:8300"
    assert read.key == ("secret" if "token" in text else None)


@pytest.mark.parametrize("scheme", ["http", "https", "ws", "wss"])
def test_a_server_behind_a_path_and_a_chosen_model_are_kept(scheme: str) -> None:
    read = address.read(f"{scheme}://host/voice/?model=gpt-realtime&token=secret", None, None)
    assert str(read.url) == f"{scheme}://host/voice/v1/realtime?model=gpt-realtime"


def test_the_key_of_the_command_line_goes_first_and_the_environment_last() -> None:
    url = "http://host/?token=url"
    assert address.read(url, "given", "kept").headers == {"Authorization": "Bearer given"}
    assert address.read(url, None, "kept").key == "url"
    assert address.read("http://host/", None, "kept").key == "kept"
    assert address.read("http://host/", None, None).headers == {}


def test_no_secret_is_shown() -> None:
    read = address.read("http://me:word@host/?token=secret", None, None)
    assert "secret" not in repr(read) and "word" not in repr(read)


@pytest.mark.parametrize("text", ["", "host:8300", "ftp://host/", "http://", "http://[", "http:x"])
def test_an_address_that_is_none_is_told_in_one_line(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["talk", "--url", text]) == 2
    told = capsys.readouterr().err
    assert told.startswith("parley: --url: expected an address") and told.count("\n") == 1


def problem(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit status, and the one line that is told."""
    status = main(["talk", *arguments])
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1
    return status, told.err.removeprefix("parley: ").strip()


def test_a_file_that_is_not_there_is_told_before_anyone_is_called(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = tmp_path / "none.wav"
    status, told = problem(capsys, "--url", "http://127.0.0.1:9/", "--file", str(missing))
    assert (status, told) == (2, f"{missing}: cannot read: No such file or directory")


def test_a_server_that_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str], question: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        status, told = problem(capsys, "--url", f"{url}/?token=secret", "--file", str(question))
    assert (status, told) == (1, f"cannot reach {url}: Connection refused")


def test_a_missing_library_is_told_with_the_command_that_installs_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    for arguments in (["--list-devices"], ["--url", "http://127.0.0.1:9/"]):
        status, told = problem(capsys, *arguments)
        assert status == 2 and told.endswith("-m pip install sounddevice")


def test_a_file_takes_the_place_of_devices(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["talk", "--url", "http://host/", "--file", "a.wav", "--input", "1"])
    assert ended.value.code == 2
    assert "--file takes the place of --input and --output" in capsys.readouterr().err


def test_certificates_that_cannot_be_read_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, told = problem(capsys, "--url", "https://host/", "--ca", str(tmp_path / "ca.pem"))
    assert status == 2 and told.startswith("--ca: cannot read")


@pytest.fixture
def question(tmp_path: Path) -> Path:
    """A file to say."""
    import numpy as np

    from tests.sounds import write_wav

    path = tmp_path / "question.wav"
    write_wav(path, np.full(480, 0.1, np.float32), 24_000)
    return path
