"""Rows of a table's state on their way to what a change asks of them: those that it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from singerlake.format.types import Columns
from singerlake.rows.batches.packing import one_array
from singerlake.rows.batches.row_columns import BLOCK, DELETED, MISFITS, ORDINAL, TYPES, alias
from singerlake.rows.batches.steps import BATCH_ROWS, Batches
from singerlake.rows.blocks import block_tasks
from singerlake.rows.changes.asked_rows import as_type, compared_keys, shared
from singerlake.rows.changes.merge_terms import LAYER
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.state import keys
from singerlake.rows.state.key_filter import KeyFilter
from singerlake.rows.state.parquet_parts import IndexDamagedError


@dataclass
class PresentStep:
    """Shares out those rows of a state that may be asked for.

    Attributes:
        columns: The table's.
        keys: Indexes of its key's columns.
        cells: Indexes of the columns whose cells are wanted, besides the key's.
        asked: What a :class:`KeyFilter` is made of; None for all rows.
        parts: Parts that rows are shared out to, as those that are asked for are.
        layer: Whether the rows are a layer's.
    """

    columns: Columns
    keys: tuple[int, ...]
    cells: tuple[int, ...]
    asked: Sequence[bytes] | None
    parts: int
    layer: bool = False

    def __call__(self, batches: Batches) -> Batches:
        """Take batches of rows with provenance, columns as they are called inside."""
        wanted = None if self.asked is None else KeyFilter(self.asked)
        waiting: list[pa.Table] = []
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            if wanted is not None:
                mask = wanted.mask(self._compared(rows))
                if not mask.any():
                    continue
                rows = rows.filter(pa.array(mask))
            waiting.append(self._normal(rows))
            if sum(map(len, waiting)) >= 4 * BATCH_ROWS:
                yield from self._shared(waiting)
                waiting = []
        if waiting:
            yield from self._shared(waiting)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that rows are found by."""
        return tuple(map(alias, self.keys)) or (BLOCK, ORDINAL)

    def _compared(self, rows: pa.Table) -> pa.Table:
        return compared_keys(rows, self.names, tuple(self.columns[i] for i in self.keys))

    def _normal(self, rows: pa.Table) -> pa.Table:
        """Rows with the columns that a comparison needs, and no others."""
        wanted = {alias(i): arrow_type(self.columns[i][1]) for i in (*self.keys, *self.cells)}
        wanted |= {name: TYPES[name] for name in (BLOCK, ORDINAL, MISFITS)}
        columns = {name: as_type(one_array(rows.column(name)), t) for name, t in wanted.items()}
        gone = one_array(rows.column(DELETED)) if self.layer else None
        columns[DELETED] = pa.nulls(len(rows), pa.bool_()) if gone is None else gone
        columns[LAYER] = pa.repeat(pa.scalar(self.layer), len(rows))
        return pa.table(columns)

    def _shared(self, waiting: list[pa.Table]) -> Batches:
        rows = pa.concat_tables(waiting)
        part = keys.parts_of(self._compared(rows), self.parts)
        yield from shared(rows, part, self.parts, present=True)


@dataclass
class IndexScan:
    """Reads Parquet files of an index where they lie.

    Of a row group without a row that is asked for, only the keys are read.

    Attributes:
        groups: Of each task, the files' paths and the numbers of row groups.
        names: What the files' columns are called inside, in order.
        step: Shares the rows out.
    """

    groups: Sequence[Sequence[tuple[str, int]]]
    names: Sequence[str]
    step: PresentStep

    def __call__(self, numbers: Batches) -> Batches:
        """Read what the numbers of tasks name."""
        step = self.step
        asked = None if step.asked is None else KeyFilter(step.asked)
        plain = PresentStep(step.columns, step.keys, step.cells, None, step.parts, step.layer)
        for number in block_tasks.numbers(numbers):
            yield from plain(self._rows(self.groups[number], asked))

    def _rows(
        self, groups: Sequence[tuple[str, int]], asked: KeyFilter | None
    ) -> Iterator[pa.RecordBatch]:
        opened: tuple[str, pq.ParquetFile] | None = None
        for path, group in groups:
            try:
                if opened is None or opened[0] != path:
                    # A flipped bit in a cache must be an error, not another answer.
                    file = pq.ParquetFile(path, page_checksum_verification=True)
                    opened = path, file
                yield from self._group(opened[1], group, asked)
            except (OSError, pa.ArrowInvalid) as error:
                raise IndexDamagedError(
                    f"{path} cannot be read: {error}; a materialized snapshot is only a cache: "
                    "delete its folder"
                ) from error

    def _group(
        self, file: pq.ParquetFile, group: int, asked: KeyFilter | None
    ) -> Iterator[pa.RecordBatch]:
        step = self.step
        more = [
            *map(alias, step.cells),
            BLOCK,
            ORDINAL,
            MISFITS,
            *([DELETED] if step.layer else []),
        ]
        mask = None
        if asked is not None:
            if self._passes_by(file, group, asked):
                return
            found = self._read(file, group, step.names)
            mask = asked.mask(step._compared(found))
            if not mask.any():
                return
        rows = self._read(file, group, list(dict.fromkeys((*step.names, *more))))
        if mask is not None:
            rows = rows.filter(pa.array(mask))
        yield from rows.combine_chunks().to_batches(max_chunksize=4 * BATCH_ROWS)

    def _passes_by(self, file: pq.ParquetFile, group: int, asked: KeyFilter) -> bool:
        """Whether the statistics of a row group say that it has no row that is asked for."""
        told = file.metadata.row_group(group)
        at = {told.column(n).path_in_schema: n for n in range(told.num_columns)}
        own = dict(zip(self.names, file.schema_arrow.names, strict=True))
        for number, name in enumerate(self.step.names):
            statistics = told.column(at[own[name]]).statistics if own[name] in at else None
            if statistics is None or not statistics.has_min_max:
                continue
            if asked.none_within(number, statistics.min, statistics.max):
                return True
        return False

    def _read(self, file: pq.ParquetFile, group: int, wanted: Sequence[str]) -> pa.Table:
        own = dict(zip(self.names, file.schema_arrow.names, strict=True))
        columns = [own[name] for name in wanted]
        found = file.read_row_group(group, columns=columns, use_threads=False)
        # By name: for "a", "a.b" is read as well.
        return pa.table([found.column(own[name]) for name in wanted], list(wanted))
