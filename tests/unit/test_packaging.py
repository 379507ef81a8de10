"""What is installed: the wheel holds the pages, serving needs no torch, and the image is sound."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def copied(source: Path, *besides: str) -> Path:
    """A copy of what is installed, and of folders beside it."""
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    for room in ("engine", "server", "web", *besides):
        shutil.copytree(ROOT / room, source / room)
    return source


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a copy: setuptools leaves a folder where it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    source = copied(folder / "source")
    build = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", folder, source], check=True)
    return zipfile.ZipFile(next(folder.glob("parley_voice-*.whl")))


def test_the_wheel_holds_every_module_and_page(wheel: zipfile.ZipFile) -> None:
    wanted = {
        str(file.relative_to(ROOT))
        for room in ("engine", "server", "web")
        for file in (ROOT / room).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert wanted - set(wheel.namelist()) == set()


def test_the_wheel_holds_the_licences(wheel: zipfile.ZipFile) -> None:
    names = {Path(name).name for name in wheel.namelist() if "/licenses/" in name}
    assert names == {"LICENSE", "NOTICE"}


def test_the_wheel_brings_the_command(wheel: zipfile.ZipFile) -> None:
    points = next(name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    assert "parley = server.cli:main" in wheel.read(points).decode()


def test_serving_imports_no_torch() -> None:
    program = "import json, sys, server.cli, engine.registry; print(json.dumps(list(sys.modules)))"
    printed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True
    ).stdout
    assert {"torch", "triton", "playwright", "pytest"} & set(json.loads(printed)) == set()


@pytest.mark.full
def test_an_environment_made_to_serve_holds_no_torch() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = copied(Path(folder) / "source", "requirements", "scripts")
        subprocess.run([source / "scripts/setup"], check=True)
        python, listing = source / ".venv/bin/python", ["-m", "pip", "list", "--format=freeze"]
        listed = subprocess.run([python, *listing], check=True, capture_output=True, text=True)
    names = {line.partition("==")[0] for line in listed.stdout.splitlines()}
    assert "onnxruntime" in names and not {"torch", "triton", "pytest"} & names
    assert not [name for name in names if "nvidia" in name]


def test_no_library_of_the_engine_keeps_files_about_us_or_reports_home(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    load = "from engine.onnx import Network; from tests.sounds import hibari; hibari('Hello.')"
    subprocess.run([sys.executable, "-c", load], cwd=ROOT, env=home, check=True)
    assert list(tmp_path.rglob("*")) == []


def test_only_the_gpu_extra_names_torch() -> None:
    assert any(name.startswith("torch") for name in PROJECT["optional-dependencies"]["gpu"])
    assert not [name for name in PROJECT["dependencies"] if "torch" in name or "gpu" in name]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each with its continuation lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines if line)]


def test_the_image_is_built_on_a_named_release_and_runs_as_nobody_special() -> None:
    found = instructions()
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", dict(found)["FROM"])
    names = [name for name, _ in found]
    assert names.count("USER") == 1 and dict(found)["USER"] != "root"
    assert names.index("USER") < names.index("COPY") < names.index("ENTRYPOINT")


def test_the_image_keeps_no_package_lists_and_adds_nothing_from_the_network_unproved() -> None:
    found = instructions()
    assert {name for name, _ in found} <= {
        *("FROM", "RUN", "USER", "WORKDIR", "COPY", "ENV", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT")
    }
    for name, rest in found:
        if name == "RUN" and "apt-get install" in rest:
            assert "--no-install-recommends" in rest
            assert "rm -rf /var/lib/apt/lists/*" in rest
        assert not re.search(r"curl|wget|sudo|chmod 777", rest)


def test_the_image_starts_the_server_itself_and_asks_it_for_its_health() -> None:
    found = dict(instructions())
    assert json.loads(found["ENTRYPOINT"]) == [".venv/bin/parley", "serve"]
    check = json.loads(found["HEALTHCHECK"].partition(" CMD ")[2])
    assert check[0] == ".venv/bin/python" and "/health" in check[2]
    compile(check[2], "HEALTHCHECK", "exec")


def test_the_image_gets_all_that_the_wheel_is_made_of() -> None:
    admitted = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }
    assert admitted >= {"LICENSE", "NOTICE", "README.md", "pyproject.toml", "requirements"}
    assert admitted >= {"scripts", "engine", "server", "web"}
    assert all((ROOT / name).exists() for name in admitted)
