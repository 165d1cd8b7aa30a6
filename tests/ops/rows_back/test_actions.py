"""What each task that writes rows again is sent."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from singerlake.engine.local import LocalEngine
from singerlake.lake import Lake
from singerlake.ops.rows_back import actions, lines_again
from singerlake.ops.rows_back.actions import Actions, Found
from singerlake.ops.rows_back.lines_again import LinesAgain
from tests.build import commit_rows

ID = {"id": {"type": "integer"}}


def test_task_is_sent_nothing_of_the_rest_of_the_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    write = actions._Write

    def noted(writer: lines_again.LineWriter) -> actions._Write:
        sent.append(len(cloudpickle.dumps(writer)))
        return write(writer)

    monkeypatch.setattr(actions, "_Write", noted)
    for number in range(1, 40):
        head = commit_rows(lake, "tap.s", ID, ["id"], [{"id": number}])
        if number in (3, 39):
            lines = LinesAgain.of(
                lake.table("tap.s"), head, head.schema_hash, deleted_under=(), put_back_under=()
            )
            lines.write(Actions(LocalEngine(), []), [], whole=False)
    assert sent[1] <= sent[0] + 100, "the log is 13 times as long"


def test_first_row_without_a_key_is_found_over_all_parts() -> None:
    def part(codes: list[int], deleted: list[bool], lacking: list[int]) -> pa.RecordBatch:
        found = Found(
            np.array(codes, dtype=np.int64), np.array(deleted), np.array(lacking, dtype=np.int16)
        )
        return found.batch()

    def of(batch: pa.RecordBatch) -> object:
        return lambda: iter([batch])

    from singerlake.rows.blocks.positions import codes

    at = [int(code) for block in (3, 5) for code in codes(block, np.arange(3))]
    parts = [
        of(part(at[3:], [True, True, False], [1, -1, 0])),
        of(part(at[:3], [False, True, False], [0, 1, -1])),
    ]
    counted = Actions(LocalEngine(), parts).count()
    assert (counted.put_back, counted.deleted, counted.keyless) == (3, 3, (3, 1, 1))
    nothing = Actions(LocalEngine(), []).count()
    assert (nothing.put_back, nothing.deleted, nothing.keyless) == (0, 0, None)
