"""What the tests on PostgreSQL share: one cluster, and the plugins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres import cluster as clusters
from tests.postgres import plugins


@pytest.fixture(scope="session")
def cluster(environments: None) -> Iterator[clusters.Cluster]:
    """A PostgreSQL of the tests' own, with the plugins that read and fill it installed."""
    if reason := clusters.missing():
        pytest.skip(reason)
    try:
        plugins.installed()
    except plugins.NoNetworkError as error:
        pytest.skip(str(error))
    started = clusters.Cluster()
    yield started
    started.stop()
