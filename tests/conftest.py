"""What all tests share."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from singerlake.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# The commands that tests start must not keep files in the real home, nor train Java there.
os.environ["SINGERLAKE_CACHE"] = "off"


@pytest.hookimpl(tryfirst=True)  # the plugin looks at the marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Side by side, all tests that need Spark share one worker, and so its one session."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(autouse=True)
def _logging_stays_as_it_was() -> Iterator[None]:
    """A plugin that runs in the tests' own process sets up the logging of the whole process."""
    root = logging.getLogger()
    level, factory, hook = root.level, logging.getLogRecordFactory(), sys.excepthook
    yield
    root.setLevel(level)
    logging.setLogRecordFactory(factory)
    sys.excepthook = hook


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake in a fresh folder."""
    return Lake.open(str(tmp_path / "lake"), create=True)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests: starting one takes seconds."""
    from singerlake.spark.session import session

    yield session("local[2]", {"spark.driver.memory": "1g"})
