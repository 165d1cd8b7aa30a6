"""Brings rows that came into published files by what the files themselves hold.

Their keys are looked up among the published rows, which are the earlier answer: so neither the
earlier state nor its index is read. That is two jobs: one finds which of the rows are there, in
which file and whether they are other rows now, the next writes these files again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.engine.base import Engine
from singerlake.ops.publish.fresh_rows import FreshRows
from singerlake.ops.publish.write.files_reader import FilesReader
from singerlake.ops.publish.write.increments import Counted, Planned, Publication
from singerlake.ops.publish.write.merged_files import GivenRows, shares_of, write_given
from singerlake.publish import ranges
from singerlake.publish.files import file_format
from singerlake.publish.files.base import Piece
from singerlake.publish.lookup import Lookup
from singerlake.rows.batches.packing import packed_cell, unpack
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks

FoundRows: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]"
_FOUND = "rows binary"


def can_plan_fresh(publication: Publication) -> bool:
    """Tell whether published rows can be looked up at all.

    Args:
        publication: What they are to be looked up in.
    """
    reads_back = file_format(publication.target.format).reads_back
    return reads_back and publication.has_columns_of_base


def plan_fresh(engine: Engine[Any], fresh: FreshRows, publication: Publication) -> Planned | None:
    """Plan what changes at a destination that shows an earlier state.

    Args:
        fresh: What came since that state.

    Returns:
        None where it cannot be done so: too many files cross, or these do not hold the key as it
        is.

    Raises:
        DamagedError: A file cannot be read back.
    """
    key, schema, projection = fresh.keys.column_names, publication.schema, publication.projection
    if not set(key) <= set(schema.names):
        return None
    if any(schema.field(one.name).type != one.type for one in fresh.keys.schema):
        return None  # files may hold another value than the one that is looked for
    reader = publication.reader(publication.base.files, fresh.rows.schema)
    changed = _compared(engine, fresh, reader)
    if not changed.count:
        return Planned(publication)
    places = publication.places
    before, after = places.nothing(), places.nothing()
    for file, keys in changed.gone:
        before.inside[file] += len(keys)
    for batch in changed.come.to_batches():
        after.add(places.find(batch))
    small = publication.piece_bytes
    made = ranges.plan(places, before, after, small=small, whole_ranges=False)
    shared = shares_of(projection, places, made, changed.count)
    if shared is None:
        return None

    given = GivenRows(key, changed.gone, changed.come)
    files = partial(write_given, publication, engine, given, shared, made.slots)
    return Planned(publication, changed.counted, made, files)


@dataclass(frozen=True)
class _Changed:
    """The changes to make to published rows.

    Attributes:
        gone: Keys of rows that are gone, or are others now, by the number of their file.
        come: Rows that are new, or were others.
        count: How many rows differ; one that was and is counts once.
    """

    gone: Sequence[tuple[int, pa.Table]]
    come: pa.Table
    count: int

    @property
    def counted(self) -> Counted:
        """The number of rows of an increment."""
        return Counted(sum(len(keys) for _, keys in self.gone), len(self.come), self.count)


def _compared(engine: Engine[Any], fresh: FreshRows, reader: FilesReader) -> _Changed:
    """Look the rows that came up among those that are published."""
    keys, rows, of_key = fresh.keys, fresh.rows, fresh.of_key
    if not keys.num_columns:  # then no row was ever replaced
        return _Changed([], rows, len(rows))
    files, found, same = _found(engine, Lookup(keys, rows, of_key), reader)
    stays = np.ones(len(rows), bool)
    stays[of_key[found[same]]] = False
    gone = [
        (int(file), keys.take(pa.array(found[~same & (files == file)])))
        for file in np.unique(files[~same])
    ]
    come = rows.filter(pa.array(stays)) if same.any() else rows
    differ = np.zeros(len(keys), bool)
    differ[found[~same]] = True
    stay = of_key >= 0
    differ[stay] |= stays[of_key[stay]]
    return _Changed(gone, come, int(differ.sum()))


def _found(engine: Engine[Any], lookup: Lookup, reader: FilesReader) -> FoundRows:
    """Give each published row with such a key: its file, its key, whether it is unchanged."""
    wanted = [index for index, file in enumerate(reader.files) if file.rows]
    if not len(lookup.keys) or not wanted:
        return _found_none()
    tasks = min(len(wanted), engine.parts)
    step = Finder(lookup, reader, [wanted[number::tasks] for number in range(tasks)])
    rows = engine.collect(engine.map(engine.source([b""] * tasks), step, _FOUND))
    found = [unpack(row["rows"]) for row in rows]
    if not found:
        return _found_none()
    table = pa.concat_tables(found)
    files, keys, same = (np.asarray(table.column(name)) for name in ("file", "key", "same"))
    return files.astype(np.int64), keys.astype(np.int64), same.astype(bool)


def _found_none() -> FoundRows:
    nothing = np.zeros(0, np.int64)
    return nothing, nothing, np.zeros(0, bool)


@dataclass
class Finder:
    """Looks keys up in published files.

    Attributes:
        files: Of each task, the numbers of its files.
    """

    lookup: Lookup
    reader: FilesReader
    files: Sequence[Sequence[int]]

    def __call__(self, numbers: Batches) -> Batches:
        """Look in the files of the tasks whose numbers come."""
        for number in block_tasks.numbers(numbers):
            for file in self.files[number]:
                for piece in self.reader.pieces(self.reader.files[file]):
                    if self.lookup.may_be_within(piece.bounds):
                        yield from self._found(file, piece)

    def _found(self, file: int, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Only where a key is there, the other columns are read."""
        wanted = self.reader.wanted
        own = pa.schema([wanted.field(name) for name in self.lookup.keys.column_names])
        rows, keys = self.lookup.find(pa.Table.from_batches(piece.read(own), own))
        if not len(rows):
            return
        whole = pa.Table.from_batches(piece.read(wanted), wanted).take(pa.array(rows))
        same = self.lookup.same(whole, keys)
        files = np.full(len(rows), file, np.int32)
        found = pa.table([files, keys, same], names=["file", "key", "same"])
        yield pa.RecordBatch.from_arrays([packed_cell(found)], names=["rows"])
