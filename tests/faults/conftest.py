"""What the tests of faults share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _provoked_warnings_are_not_said() -> Iterator[None]:
    """What goes wrong here on purpose is not news; and other tests look for warnings."""
    logger = logging.getLogger("singerlake")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)
