"""A small table is turned back without Spark just as with it: the same lines in the same blocks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial

import pytest
from pyspark.sql import SparkSession

from singerlake.lake import Lake, Table
from tests.frozen import revert_here as revert_small
from tests.frozen import revert_on_spark as revert
from tests.ops.rows_back import histories
from tests.ops.rows_back.histories import NAME
from tests.ops.rows_back.written import written

pytestmark = pytest.mark.usefixtures("each_operation")


@pytest.mark.parametrize(
    ("made", "to"),
    [
        (partial(histories.random_messages, seed=11, keys=["id"]), (1, 3)),
        (partial(histories.random_messages, seed=12, keys=["part", "id"]), (2,)),
        (histories.keys_of_all_kinds, (1, 2)),
        (histories.other_schemas_and_defaults, (1, 3)),
        (histories.without_a_key, (1,)),
        (histories.keys_that_cannot_be_read, (1,)),
    ],
)
def test_both_ways(
    spark: SparkSession, lake: Lake, made: Callable[[Lake], Table], to: tuple[int, ...]
) -> None:
    made(lake)
    theirs = Lake.open(str(shutil.copytree(lake.store.uri, f"{lake.store.uri}-copy")))
    here, there = lake.find(NAME)[0], theirs.find(NAME)[0]
    for number in to:
        mine = revert_small(here, number)
        assert mine.transaction is not None
        assert mine == revert(spark, there, number)
        assert written(here, mine.transaction) == written(there, mine.transaction)
