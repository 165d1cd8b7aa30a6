"""The choice of each engine, for tests that ask the same of both."""

from __future__ import annotations

import pytest

from singerlake.engine.choice import LOCAL, SPARK, EngineChoice


@pytest.fixture(params=[LOCAL, SPARK])
def engine(request: pytest.FixtureRequest) -> EngineChoice:
    if request.param == LOCAL:
        return EngineChoice(LOCAL)
    return EngineChoice.of(spark=request.getfixturevalue("spark"))
