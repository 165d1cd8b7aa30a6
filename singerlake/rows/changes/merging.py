"""The merge of rows that are asked for with those that are there, part by part.

Equal keys are in the same part, whether of rows that are asked for or of rows that are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from singerlake.rows.batches import packing
from singerlake.rows.batches.packing import one_array
from singerlake.rows.batches.row_columns import BLOCK, DELETED, ORDINAL
from singerlake.rows.batches.steps import Batches
from singerlake.rows.changes.asked_rows import compared_keys
from singerlake.rows.changes.composing import Composed, note_repeated
from singerlake.rows.changes.judging import Judge
from singerlake.rows.changes.merge_terms import (
    LAYER,
    MERGED_SCHEMA,
    Mask,
    MergeSpec,
    MergeSummary,
    Numbers,
    asked_schema,
    bools,
    ints,
    present_schema,
)
from singerlake.rows.changes.row_ids import AT_BLOCK
from singerlake.rows.state import keys

_PACKED_ROWS = 65_536


@dataclass
class MergeStep:
    """Finds what becomes of rows. Sent to the executors."""

    spec: MergeSpec

    def __call__(self, batches: Batches) -> Batches:
        """Take the parts that come in, each whole."""
        parts: dict[int, tuple[list[bytes], list[bytes]]] = {}
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("part", "rows", "present"))
            for number, rows, present in zip(*columns, strict=True):
                parts.setdefault(number, ([], []))[bool(present)].append(rows)
        summary = MergeSummary()
        for number in sorted(parts):
            asked, present = parts.pop(number)
            rows = _whole(asked, asked_schema(self.spec))
            there = _whole(present, present_schema(self.spec))
            for name, data in self._merged(rows, there, summary):
                yield _batch({"part": number, name: data})
        yield _batch({"summary": msgspec.msgpack.encode(summary)})

    def _merged(
        self, asked: pa.Table, present: pa.Table, summary: MergeSummary
    ) -> Iterator[tuple[str, bytes]]:
        own, theirs, count = _numbered(self.spec, asked, present)
        at = _present_at(present, theirs, count)
        # Nothing of it will be written, but all that is wrong with each of these rows is said.
        again = note_repeated(self.spec, asked, own, summary)
        at = np.concatenate([at, at[own[again]]])
        own[again] = count + np.arange(len(again))
        count += len(again)
        now = np.full(count, -1, dtype=np.int64)
        now[at >= 0] = ints(present.column(BLOCK))[at[at >= 0]]
        composed = Composed(self.spec, asked, own, count)
        composed.run(now)
        judge = Judge(self.spec, asked, present, composed, at, now)
        for there, table in judge.tables(summary):
            for start in range(0, len(table), _PACKED_ROWS):
                some = table.slice(start, _PACKED_ROWS).combine_chunks()
                yield "there" if there else "new", packing.pack(some)


def _whole(packed: list[bytes], schema: pa.Schema) -> pa.Table:
    """The rows of a part, each column in one piece."""
    tables = [packing.unpack(data).select(schema.names).cast(schema) for data in packed]
    rows = pa.concat_tables([schema.empty_table(), *tables])
    return pa.table([one_array(column) for column in rows.columns], schema=schema)


def _batch(values: Mapping[str, Any]) -> pa.RecordBatch:
    arrays = [pa.array([values.get(field.name)], field.type) for field in MERGED_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=MERGED_SCHEMA)


def _numbered(spec: MergeSpec, asked: pa.Table, present: pa.Table) -> tuple[Numbers, Numbers, int]:
    """Number the keys of all rows from 0, equal ones alike; and say how many there are."""
    by_position = () if spec.keys else (BLOCK, ORDINAL)
    tables = [
        compared_keys(rows, names, spec.key_columns)
        for rows, names in ((asked, spec.join), (present, by_position or spec.join))
    ]
    codes = keys.numbered(pa.concat_tables(tables))
    own, theirs = codes[: len(asked)], codes[len(asked) :]
    count = int(codes.max(initial=-1)) + 1
    if not spec.keys:
        unnamed: Mask = bools(asked.column(AT_BLOCK).is_null())
        own[unnamed] = count + np.arange(np.count_nonzero(unnamed))
        count += int(np.count_nonzero(unnamed))
    return own, theirs, count


def _present_at(present: pa.Table, numbers: Numbers, count: int) -> Numbers:
    """Return which row of the state each key has; -1 for none."""
    at = np.full(count, -1, dtype=np.int64)
    if not len(present):
        return at
    order = np.argsort(bools(present.column(LAYER)), kind="stable")
    at[numbers[order]] = order  # what is of a layer comes last, and wins
    gone = bools(present.column(DELETED))
    at[(at >= 0) & gone[at]] = -1
    return at
