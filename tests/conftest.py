"""What several suites need."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """API keys of whoever runs the tests neither open nor lock the servers that are tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def weights() -> Paths:
    """The embedded models' weights, from the cache; fetched where they are missing."""
    return fetch()
