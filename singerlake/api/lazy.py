"""Snapshots as lazy tables of Polars and DuckDB, which ask for the rows and columns they need.

Neither holds anything between queries: each query takes a lease of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.dataset import Dataset

from singerlake.rows.batches.steps import Batches
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot.selection import Read, Selection

if TYPE_CHECKING:
    import polars as pl
    import pyarrow.compute as pc

    from singerlake.api.source import Found, Source

Scan = Callable[["Sequence[str] | None", "pc.Expression | None"], pa.RecordBatchReader]
"""Reads columns and rows of a snapshot, as ``Snapshot.scanner`` does."""


class Scanned(Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A snapshot as DuckDB scans it: with the columns and the filter of each query.

    DuckDB hands both to whatever is one of Arrow's data sets, and takes a stream of batches.

    Args:
        schema: The columns.
        scan: Reads some of them.
        row_filter: Which rows there are; None for all.
    """

    def __init__(self, schema: pa.Schema, scan: Scan, row_filter: pc.Expression | None) -> None:
        self._columns = schema
        self._scan = scan
        self._filter = row_filter

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._columns

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  # as pyarrow calls it
        **_: Any,
    ) -> _Scanner:
        """Return what reads the rows that a query needs."""
        wanted = self._columns.names if columns is None else list(columns)
        if self._filter is not None:
            filter = self._filter if filter is None else self._filter & filter  # noqa: A001
        return _Scanner(partial(self._scan, wanted, filter))


@dataclass(frozen=True)
class _Scanner:
    """The part of a scanner that DuckDB uses.

    Attributes:
        to_reader: Opens the stream of rows.
    """

    to_reader: Callable[[], pa.RecordBatchReader]


def can_be_scanned(schema: pa.Schema) -> bool:
    """Tell whether DuckDB calls the columns by their own names.

    It gives another name to a column that has none, and to the second of two whose names differ
    by case alone.
    """
    return all(schema.names) and len({name.casefold() for name in schema.names}) == len(schema)


class PolarsScan:
    """A source of rows that Polars calls for each query.

    Args:
        opened: Protects the snapshot, until what it returns is closed.
        schema: The columns, as Polars has them.
    """

    def __init__(self, opened: Callable[[], Source], schema: pl.Schema) -> None:
        self._opened = opened
        self._schema = schema

    def __call__(
        self,
        columns: list[str] | None,
        predicate: pl.Expr | None,
        count: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        """Read rows, as Polars defines it.

        Args:
            columns: Those wanted; None for all.
            predicate: Which rows; None for all.
            count: How many rows to look at, at most; None for all.
            batch_size: How many rows a frame may have, as Polars would like it.
        """
        wanted = self._schema.names() if columns is None else columns
        used = [] if predicate is None else predicate.meta.root_names()
        source = self._opened()
        try:
            found = source.found()
            frames = self._from_files(source, found, {*wanted, *used})
            if frames is None:
                yield from self._from_rows(source, found, wanted, predicate, count)
                return
            frames = frames if count is None else frames.head(count)
            frames = frames if predicate is None else frames.filter(predicate)
            frames = frames.select(wanted)
            if hasattr(frames, "collect_batches"):
                yield from frames.collect_batches(maintain_order=True, chunk_size=batch_size)
            else:
                yield frames.collect()
        finally:
            source.close()

    def _from_files(self, source: Source, found: Found, needed: set[str]) -> pl.LazyFrame | None:
        """Scan the files themselves, where these hold the snapshot and nothing else.

        They do not if they are a layer on others, or have values that are an error to read; nor
        can Polars read them as they are on a store, or select columns that it takes for patterns.
        """
        import polars as pl

        index = found.index
        if index is None or index.below is not None or not index.parts:
            return None
        shape = index.shape
        doubtful = {shape.names[place] for place in found.misfits}
        if source.strict and not doubtful.isdisjoint(needed):
            return None
        if any(name.startswith("^") and name.endswith("$") for name in needed):
            return None
        paths = [index.table.store.local_path(part.key) for part in index.parts]
        if None in paths:
            return None
        files = pl.scan_parquet([str(path) for path in paths], glob=False, hive_partitioning=False)
        read = files.collect_schema()
        same = all(read.get(name) == type_ for name, type_ in self._schema.items())
        return files if same else None

    def _from_rows(
        self,
        source: Source,
        found: Found,
        wanted: list[str],
        predicate: pl.Expr | None,
        count: int | None,
    ) -> Iterator[pl.DataFrame]:
        """Read the rows as everybody else does, and keep those that Polars wants."""
        shape = shape_of(source.state)
        places = {name: place for place, name in enumerate(shape.names)}
        used = [] if predicate is None else predicate.meta.root_names()
        selected = Selection(
            source.state.table,
            shape,
            tuple(places[name] for name in wanted),
            None if predicate is None else partial(_kept, predicate, used),
            frozenset(places[name] for name in used),
            source.strict,
        )
        if count is not None:
            found = replace(found, read=partial(_first, found.read, count))
        for batch in source.rows(found, selected):
            yield frame_of(batch)


def frame_of(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """Return rows as a frame of Polars, which would call a column without a name otherwise."""
    import polars as pl

    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101  # which a table becomes
    frame.columns = rows.schema.names
    return frame


def _first(read: Read, count: int, columns: Sequence[str]) -> Batches:
    """Read the first rows only."""
    for batch in read(columns):
        some = batch.slice(0, count)
        count -= len(some)
        yield some
        if not count:
            break


def _kept(predicate: pl.Expr, used: Sequence[str], rows: pa.Table) -> pa.Table:
    """Keep the rows of a table for which an expression of Polars is true."""
    frame = frame_of(rows.select(used))
    number = "_" * (1 + max(map(len, used), default=0))
    kept = frame.with_row_index(number).filter(predicate).get_column(number)
    return rows.take(kept.to_arrow())
