"""Fixtures for sources: a repository to push to, and sources that read it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from delegate.engine.sources.manifests import Sources
from tests.sources.repositories import Repository, make_sources


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[Sources]:
    made = make_sources(tmp_path)
    yield made
    made.close()
