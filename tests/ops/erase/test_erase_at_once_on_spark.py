"""The tests of tests/ops/erase/test_at_once.py on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from singerlake.engine.choice import EngineChoice
from tests.frozen import on
from tests.ops.erase.test_at_once import *  # noqa: F403

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def engine(spark: SparkSession) -> EngineChoice:
    return on(spark)
