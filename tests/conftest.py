"""What several suites need."""

from __future__ import annotations

import pytest

from engine.weights import Paths, fetch


@pytest.fixture(scope="session")
def weights() -> Paths:
    """The embedded models' weights, from the cache; fetched where they are missing."""
    return fetch()
