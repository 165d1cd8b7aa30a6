"""The engine that commands run on, for tests that ask the same of both."""

from __future__ import annotations

import pytest

from singerlake.engine.choice import LOCAL, SPARK, VARIABLE


@pytest.fixture(params=[LOCAL, SPARK])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == SPARK:
        request.getfixturevalue("spark")
    monkeypatch.setenv(VARIABLE, request.param)
    return str(request.param)
