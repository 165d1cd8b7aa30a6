"""An engine of each kind; Spark's also as it tells tasks what they are where that is much."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.engine.base import Engine
from singerlake.engine.local import LocalEngine
from tests.needs import LOCAL

KINDS = (LOCAL, "spark", "spark, tasks sent as rows")


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine[Any]:
    if request.param == LOCAL:
        return LocalEngine()
    from singerlake.engine.spark import engine as spark_engine

    if request.param != "spark":
        monkeypatch.setattr(spark_engine, "CARRIED_BYTES", 0)
        monkeypatch.setattr(spark_engine, "_SHARE_BYTES", 12)
    return spark_engine.SparkEngine(request.getfixturevalue("spark"))
