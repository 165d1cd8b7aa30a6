"""The choice of each engine, for tests that ask the same of both."""

from __future__ import annotations

from typing import NoReturn

import pytest

from singerlake.engine.choice import LOCAL, SPARK, EngineChoice
from singerlake.errors import UsageError


@pytest.fixture(params=[LOCAL, SPARK])
def engine(request: pytest.FixtureRequest) -> EngineChoice:
    if request.param == LOCAL:
        return EngineChoice(LOCAL)
    return EngineChoice.of(spark=request.getfixturevalue("spark"))


@pytest.fixture
def no_java() -> EngineChoice:
    """The choice by size, with which Spark cannot be started: that is an error."""

    def started() -> NoReturn:
        raise UsageError("Java starts")

    return EngineChoice(start=started)
