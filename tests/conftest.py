"""What several suites need."""

from __future__ import annotations

import pytest
from hypothesis import settings

from engine.weights import Paths, fetch

# A machine that is busy with something else fails no property.
settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def weights() -> Paths:
    """The embedded models' weights, from the cache; fetched where they are missing."""
    return fetch()
