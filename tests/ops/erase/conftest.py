"""Erasing rows in this process, and on Spark."""

from __future__ import annotations

import pytest

from singerlake.engine.choice import EngineChoice
from tests.frozen import HERE, on
from tests.needs import LOCAL


@pytest.fixture(params=[LOCAL, "spark"])
def engine(request: pytest.FixtureRequest) -> EngineChoice:
    return HERE if request.param == LOCAL else on(request.getfixturevalue("spark"))
