"""A small table is turned back without Spark just as with it: the same lines in the same blocks."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.lake import Lake, Table
from singerlake.rows_back.revert import Reverted
from tests.frozen import revert_here as revert_small
from tests.frozen import revert_on_spark as revert
from tests.rows_back import histories
from tests.rows_back.histories import NAME

pytestmark = pytest.mark.usefixtures("each_operation")

_GONE = re.compile(rb'"_sdc_deleted_at": ?"20[2-9][^"]*"')
"""When a revert deleted a row, which is no other row's."""


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
        assert written(here, mine) == written(there, mine)


def written(table: Table, done: Reverted) -> dict[str, Any]:
    """All that a revert's transaction says, but for names and times."""
    (entry,) = [one for one in table.entries() if one.number == done.transaction]
    metadata = dict(entry.metadata or {})
    return {
        "operation": entry.operation,
        "schema": (entry.schema_hash, entry.schemas),
        "metrics": entry.metrics,
        "metadata": metadata,
        "blocks": [
            (
                block.number,
                block.schema_hash,
                block.rows,
                len(block.activations),
                text(table, block),
            )
            for block in entry.blocks
        ],
    }


def text(table: Table, block: Any) -> bytes:
    """A block's lines, with one time for all deletions and one Singer version that is new."""
    lines = _GONE.sub(b'"_sdc_deleted_at": "now"', table.read_block(block))
    return re.sub(rb'"version": ?\d{12,}', b'"version": "new"', lines)
