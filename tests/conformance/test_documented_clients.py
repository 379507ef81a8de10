"""The programs that README.md and docs/ show do run as they stand, against ``parley serve``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import wave
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests import sounds
from tests.cutting import cutting

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SHOWN = "http://127.0.0.1:8300/"
SERVE = "import sys; from server.cli import main; sys.exit(main())"


def program(page: str, calls: str) -> str:
    """The Python program of ``page`` that ``calls``."""
    shown = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    (found,) = (program for program in shown if calls in program)
    assert SHOWN in found
    return str(found)


def serving(*settings: str) -> Iterator[str]:
    """The address of a server in a process of its own."""
    command = [sys.executable, "-c", SERVE, "serve", "--port", "0", *settings]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith("Ready in "), line
        yield line.split()[-1]
        server.terminate()


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    yield from serving("--engine.name", "simulated")


@pytest.fixture(scope="module")
def parley() -> Iterator[str]:
    yield from serving()


def run(page: str, url: str, folder: Path, calls: str = "realtime.connect") -> str:
    command = [sys.executable, "-c", program(page, calls).replace(SHOWN, url)]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_the_readme_client_gets_an_answer_of_any_engine(echo: str, tmp_path: Path) -> None:
    assert run("README.md", echo, tmp_path).strip()


@pytest.mark.weights
def test_the_readme_client_learns_the_capital_of_france(parley: str, tmp_path: Path) -> None:
    assert "Paris" in run("README.md", parley, tmp_path)


def test_the_client_that_comes_back_is_told_every_word_once(tmp_path: Path) -> None:
    words = " ".join(map(str, range(100)))
    options = json.dumps({"mode": "scripted", "script": [{"text": words}]})
    for url in serving("--engine.name", "simulated", "--engine.options", options):
        with cutting(url, b"output_text.delta") as network:
            told = run("docs/embedding.md", network.url, tmp_path, "on_reconnecting")
        assert network.cuts == 1
        assert told.split() == words.split()


@pytest.mark.weights
def test_the_embedding_client_is_answered_aloud(parley: str, tmp_path: Path) -> None:
    question = sounds.hibari("What is the capital of France?", 24_000)
    sounds.write_wav(tmp_path / "question.wav", question, 24_000)
    run("docs/embedding.md", parley, tmp_path, "answer.wav")
    with wave.open(str(tmp_path / "answer.wav")) as answer:
        assert answer.getframerate() == 24_000
    pcm = sounds.read_wav(tmp_path / "answer.wav", 24_000)
    assert 0.5 < len(pcm) / 24_000 < 30
    assert abs(pcm).max() > 0.05


def test_the_live_client_keeps_what_it_heard_of_its_call(echo: str, tmp_path: Path) -> None:
    question = 0.3 * np.sin(np.arange(24_000) / 5)
    sounds.write_wav(tmp_path / "question.wav", question.astype(np.float32), 24_000)
    run("docs/embedding.md", echo, tmp_path, "live.connect")
    heard = sounds.read_wav(tmp_path / "call.wav", 24_000)
    assert 5 < len(heard) / 24_000 < 12
    assert abs(heard).max() > 0.05
