"""What several suites need."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings

from engine.weights import Paths, fetch

# A machine that is busy with something else fails no property.
settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")


Tell = Callable[[str], None]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Prints a figure where whoever runs the tests sees it."""

    def print_(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}")

    return print_


@pytest.fixture(scope="session")
def weights() -> Paths:
    """The embedded models' weights, from the cache; fetched where they are missing."""
    return fetch()
