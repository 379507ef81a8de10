"""The page's modules that need no browser, tested by Node's own runner."""

import subprocess
from pathlib import Path

from tests.conformance.javascript import NODE

FOLDER = Path(__file__).parent


def test_the_pages_pure_modules_keep_their_promises() -> None:
    tests = sorted(FOLDER.glob("*.test.mjs"))
    assert tests
    result = subprocess.run([NODE, "--test", *tests], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
