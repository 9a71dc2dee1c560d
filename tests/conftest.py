"""Settings that hold for every test."""

import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

# A shared machine may stall any example for longer than a deadline; what is slow is caught by pytest-timeout instead.
settings.register_profile("ci", deadline=None, print_blob=True)
settings.register_profile("thorough", parent=settings.get_profile("ci"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A command that a test runs in this process sets up its own logs; the next test has none of that."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
