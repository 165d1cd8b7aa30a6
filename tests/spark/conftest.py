"""One Spark session for all tests of the folder: starting one takes seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from singerlake.spark.session import session

    yield session("local[2]", {"spark.driver.memory": "1g"})
