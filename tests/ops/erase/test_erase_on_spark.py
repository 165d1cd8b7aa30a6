"""The tests of tests/ops/erase/test_erase.py on Spark, and conditions, which only Spark checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from singerlake.engine.choice import EngineChoice
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from tests.build import commit_rows
from tests.erasing import erase
from tests.frozen import on
from tests.ops.erase import planted
from tests.ops.erase.test_erase import *  # noqa: F403
from tests.ops.erase.test_erase import check_nowhere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def engine(spark: SparkSession) -> EngineChoice:
    return on(spark)


def test_a_condition_means_what_a_row_ever_was(
    lake: Lake, table: Table, engine: EngineChoice
) -> None:
    done = erase(engine, table, where=f"name = '{planted.TEXT} II'")
    assert (done.keys, done.lines) == (1, 4), "also what she was before and after"
    check_nowhere(lake)
    assert erase(engine, table, where="name = 'nobody'").lines == 0
    commit_rows(
        lake, "tap.null", {"id": {"type": ["null", "integer"]}}, ["id"], [{"id": None}, {"id": 2}]
    )
    loose = lake.table(TableName("tap", "null"))
    assert erase(engine, loose, where="id is null or id = 2").lines == 2
