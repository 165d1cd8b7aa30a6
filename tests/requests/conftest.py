"""A world for a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.requests.world import World, running
from tests.storage.conftest import no_aws_settings, s3_port

__all__ = ["no_aws_settings", "s3_port"]


@pytest.fixture
def world(s3_port: int) -> Iterator[World]:
    with running(s3_port) as found:
        yield found
