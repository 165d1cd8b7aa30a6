"""Lines of changed rows: what is written many together is what is written one by one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from singerlake.format.log import decode_block
from singerlake.format.written import written_under
from singerlake.lake import Lake
from singerlake.log.blocks import read_block
from singerlake.ops.change import change_writer
from singerlake.ops.change.change_writer import ChangeWriter
from singerlake.ops.change.changed_blocks import Target
from singerlake.rows.batches.problems import Problems, decode
from singerlake.rows.changes.merge_terms import DELETED
from singerlake.rows.state.shape import shape_of
from tests import build

NAMES = {
    "id": {"type": "integer"},
    "a": {"type": ["string", "null"], "maxLength": 9},
    "b": {"type": ["number", "null"]},
    "o": {},
}
ROWS = 70


def record(n: int) -> dict[str, Any]:
    """Every fifth holds an object, every seventh says nothing of a, some hold escapes."""
    found: dict[str, Any] = {"id": n, "a": f'"{n}" {{', "b": n / 4, "o": [n, {"a": n}][n % 5 == 0]}
    found["a"] = found["a"] if n % 3 else f"ź {n}"
    return {name: value for name, value in found.items() if name != "a" or n % 7}


def written(lake: Lake, texts: list[str | None], *, dry_run: bool) -> tuple[list[bytes], Problems]:
    """Change a and b of all rows, but for the last: it is deleted."""
    table = lake.find("t.s")[0]
    state = table.snapshot()
    columns = shape_of(state).columns
    target = Target(
        store=lake.store,
        table=table.name,
        under=written_under(state.schemas[state.schema_hash], state.overlay, state.rules),
        schema_hash=state.schema_hash,
        columns=columns,
        cells=tuple(n for n, (name, _) in enumerate(columns) if name in ("id", "a", "b")),
        version=None,
        new_version=None,
        stamp=build.EXTRACTED,
        sources=("f.csv",),
        block_rows=1000,
        file_bytes=1 << 20,
        dry_run=dry_run,
    )
    places = [(block.number, row) for block in state.blocks for row in range(block.rows)]
    at = {name: n for n, (name, _) in enumerate(columns)}
    sets = [[at["a"]] if n % 2 else [at["a"], at["b"]] for n in range(ROWS)]
    batch = pa.RecordBatch.from_pydict(
        {
            "block": pa.array([block for block, _ in places], pa.int64()),
            "row": pa.array([row for _, row in places], pa.int32()),
            "status": pa.array([None] * (ROWS - 1) + [DELETED]),
            "changed": pa.array(sets, pa.list_(pa.int32())),
            f"c{at['id']}": pa.array(range(ROWS), pa.int64()),
            f"c{at['a']}": pa.array(texts, pa.string()),
            f"c{at['b']}": pa.array([-0.5] * ROWS, pa.float64()),
            "source": pa.array([0] * ROWS, pa.int32()),
            "line": pa.array(range(1, ROWS + 1), pa.int64()),
            "row_id": pa.nulls(ROWS, pa.string()),
            "work": pa.nulls(ROWS, pa.binary()),
        }
    )
    lines: list[bytes] = []
    problems = Problems()
    for found in ChangeWriter(target, state.blocks)(iter([batch])):
        for row in found.to_pylist():
            if row["problems"]:
                problems = decode(row["problems"])
            else:
                block = decode_block(row["block"])
                lines += read_block(lake.store, table.name, block).splitlines()[1:]
    return lines, problems


@pytest.fixture(name="lake")
def _lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    build.commit_rows(lake, "t.s", NAMES, ["id"], [record(n) for n in range(ROWS)], block_rows=40)
    return lake


def test_what_is_written_together_is_what_is_written_one_by_one(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [None if n % 4 == 0 else f'"{n}\n' for n in range(ROWS)]
    together, _ = written(lake, texts, dry_run=False)
    monkeypatch.setattr(change_writer, "_FEW", sys.maxsize)
    one_by_one, _ = written(lake, texts, dry_run=False)
    assert len(together) == ROWS
    assert sorted(together) == sorted(one_by_one)
    assert together != one_by_one  # those that cannot be together come behind the others
    records = {one["id"]: one for one in (json.loads(line)["record"] for line in together)}
    for n in range(ROWS - 1):
        wanted = {**record(n), "a": texts[n], "b": record(n)["b"] if n % 2 else -0.5}
        assert records[n] == wanted
    assert "_sdc_deleted_at" in records[ROWS - 1]


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_does_not_fit_the_schema_is_named_by_its_line(
    lake: Lake, dry_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["much too long" if n in (4, 5, 60) else "x" for n in range(ROWS)]
    lines, together = written(lake, texts, dry_run=dry_run)
    assert not lines
    monkeypatch.setattr(change_writer, "_FEW", sys.maxsize)
    _, one_by_one = written(lake, texts, dry_run=dry_run)
    named = sorted(problem.line or 0 for problem in together.first)
    assert named == sorted(problem.line or 0 for problem in one_by_one.first) == [5, 6, 61]
