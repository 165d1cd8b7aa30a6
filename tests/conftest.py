"""What all tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from singerlake.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake in a fresh folder."""
    return Lake.open(str(tmp_path / "lake"), create=True)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests: starting one takes seconds."""
    from singerlake.spark.session import session

    yield session("local[2]", {"spark.driver.memory": "1g"})
