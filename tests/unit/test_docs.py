"""The documentation names only what there is."""

import re
from pathlib import Path

import pytest

from server.cli import main
from server.settings import load

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/operating.md", "docs/embedding.md")
OTHERS = {"--full", "--gpu", "--help", "--name", "--network", "--rm", "PARLEY_CACHE"}
"""Options of the scripts, of `parley keys` and of Docker; the one variable that is no setting."""


@pytest.fixture
def options(capsys: pytest.CaptureFixture[str]) -> set[str]:
    with pytest.raises(SystemExit):
        load(["--help"])
    with pytest.raises(SystemExit):
        main(["talk", "--help"])
    return set(re.findall(r"--[a-z][a-z.-]+|PARLEY_KEY", capsys.readouterr().out))


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_that_is_named_exists(page: str, options: set[str]) -> None:
    variables = {f"PARLEY_{o[2:].upper().replace('.', '__').replace('-', '_')}" for o in options}
    named = re.findall(r"(?<![\w-])(?:--[a-z][a-z.-]+|PARLEY_\w+)", (ROOT / page).read_text())
    assert set(named) - options - variables - OTHERS == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []
