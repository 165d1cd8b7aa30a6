"""Published files written again with rows that changed: merged by one task each, in Arrow.

Their rows are in order already. The few that changed are sent to the task that has their range, as
whole Arrow tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from singerlake.engine.base import Engine, R
from singerlake.ops.publish.write.changed_rows import Located, unpacked
from singerlake.ops.publish.write.files_reader import FilesReader
from singerlake.ops.publish.write.increments import Publication
from singerlake.ops.publish.write.published_files import WRITTEN, FilesWriter, described, order_of
from singerlake.publish.keys import Keys
from singerlake.publish.merging import Order, merged, without
from singerlake.publish.projection import Projection
from singerlake.publish.published import DataFile
from singerlake.publish.ranges import SLOT, Places, Plan, Slots, parted
from singerlake.publish.shares import Shares, shares
from singerlake.rows.batches.packing import pack, unpack
from singerlake.rows.batches.steps import Batches, Pipeline
from singerlake.rows.blocks import block_tasks

MOST_CHANGED = 500_000
"""Changed rows up to which they are merged: a task may hold all of them."""
SHARE_BYTES = 4 << 20
"""Bytes of files that are enough for a task."""
_SHARED = "share int, gone boolean, rows binary"


@dataclass(frozen=True)
class GivenRows:
    """Rows that changed, and of which it is known where they lie.

    Attributes:
        key: The columns by which rows are the same.
        gone: Keys of rows that are gone, or are others now, by the number of the file.
        come: Rows as they are that are new, or were others.
    """

    key: Sequence[str]
    gone: Sequence[tuple[int, pa.Table]]
    come: pa.Table


def shares_of(projection: Projection, places: Places, plan: Plan, changed: int) -> Shares | None:
    """Share out the files that are written again; None where they cannot be merged.

    Args:
        places: The files.
        plan: Which of them are written again.
    """
    if changed > MOST_CHANGED:
        return None
    by = order_of(projection)
    descending = bool(by) and by[0].descending
    return shares(places, plan.touched, SHARE_BYTES, ordered=bool(by), descending=descending)


def write_merged(
    publication: Publication, rows: Located[R], shared: Shares, slots: Slots
) -> list[DataFile]:
    """Write files again, and new rows between them.

    Args:
        shared: Which files, and which rows belong to each.
        slots: Keeps rows apart that are not to be in one file.

    Returns:
        The files, in order.
    """
    engine = rows.engine
    task = _merger(publication, rows.schema, rows.key, shared, slots)
    count = len(shared.runs) + 1
    # So that files are written again to which no row comes.
    each = engine.map(engine.source([b""]), _Marks(count), _SHARED)
    given = engine.map(rows.rows, _Sharer(shared), _SHARED)
    sent = engine.exchange(engine.union(each, given), min(count, engine.parts), "share")
    written = engine.collect(engine.map(sent, task, WRITTEN))
    return described(written, task.writer, publication.projection)


def write_given(
    publication: Publication,
    engine: Engine[R],
    given: GivenRows,
    shared: Shares,
    slots: Slots,
) -> list[DataFile]:
    """Do as :func:`write_merged` with rows that are here, and of which it is known where they lie.

    Args:
        shared: Which files, and which rows belong to each.
        slots: Keeps rows apart that are not to be in one file.
    """
    task = _merger(publication, given.come.schema, given.key, shared, slots)
    count = len(shared.runs) + 1
    tasks = min(count, engine.parts)
    share_of = {
        index: share for share, runs in enumerate(shared.runs) for run in runs for index in run
    }
    rows = [(share_of[index], True, pack(keys)) for index, keys in given.gone]
    for batch in given.come.combine_chunks().to_batches():
        rows += [(share, False, pack(some)) for share, some in shared.come(batch)]
    step = Pipeline((_Given(count, rows, tasks), task))
    written = engine.collect(engine.map(engine.source([b""] * tasks), step, WRITTEN))
    return described(written, task.writer, publication.projection)


def _merger(
    publication: Publication,
    schema: pa.Schema,
    key: Sequence[str],
    shared: Shares,
    slots: Slots,
) -> _Merger:
    projection = publication.in_pieces
    reader = publication.reader(publication.base.files, schema)
    writer = FilesWriter.of(projection, publication.destination, publication.schema)
    return _Merger(shared, reader, writer, Order(order_of(projection)), tuple(key), slots)


@dataclass
class _Given:
    """Gives shares their rows.

    Attributes:
        rows: Of each share some rows that are gone, or come; packed.
        tasks: How many tasks share the shares.
    """

    shares: int
    rows: Sequence[tuple[int, bool, bytes]]
    tasks: int

    def __call__(self, numbers: Batches) -> Batches:
        """Give what a ``_Merger`` takes, for the tasks whose numbers come."""
        for number in block_tasks.numbers(numbers):
            mine = range(number, self.shares, self.tasks)
            given: list[tuple[int, bool | None, bytes | None]]
            given = [(share, None, None) for share in mine]
            given += [one for one in self.rows if one[0] % self.tasks == number]
            columns = zip(*given, strict=True)
            types = (pa.int32(), pa.bool_(), pa.binary())
            arrays = [pa.array(one, type_) for one, type_ in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=["share", "gone", "rows"])


@dataclass
class _Marks:
    """Gives each share a row that says nothing."""

    shares: int

    def __call__(self, numbers: Batches) -> Batches:
        for _ in numbers:
            every = pa.array(range(self.shares), pa.int32())
            nothing = [pa.nulls(self.shares, type_) for type_ in (pa.bool_(), pa.binary())]
            yield pa.RecordBatch.from_arrays([every, *nothing], names=["share", "gone", "rows"])


@dataclass
class _Sharer:
    """Packs changed rows for the shares that they belong to."""

    shared: Shares

    def __call__(self, batches: Batches) -> Batches:
        for gone, rows in unpacked(batches):
            found = list((self.shared.gone if gone else self.shared.come)(rows))
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([share for share, _ in found], pa.int32()),
                    pa.array([gone] * len(found), pa.bool_()),
                    pa.array([pack(some) for _, some in found], pa.binary()),
                ],
                names=["share", "gone", "rows"],
            )


@dataclass
class _Merger:
    """Writes the files of shares again.

    Attributes:
        writer: Writes files.
        order: The order of rows in them.
        key: The columns by which rows are the same.
        slots: Keeps rows apart that are not to be in one file.
    """

    shared: Shares
    reader: FilesReader
    writer: FilesWriter
    order: Order
    key: tuple[str, ...]
    slots: Slots

    def __call__(self, batches: Batches) -> Batches:
        """Write what the shares that come have."""
        gone: dict[int, list[pa.Table]] = {}
        come: dict[int, list[pa.Table]] = {}
        for batch in batches:
            for share, is_gone, rows in zip(*(one.to_pylist() for one in batch), strict=True):
                gone.setdefault(share, [])
                if rows is not None:
                    (gone if is_gone else come).setdefault(share, []).append(unpack(rows))
        for share in sorted(gone):
            new = pa.concat_tables(come.pop(share, []) or [self.reader.wanted.empty_table()])
            keys = [one.select(self.key) for one in gone[share]]
            rows = self._merged(share, new, Keys(pa.concat_tables(keys)) if keys else None)
            yield from self.writer.write(self._apart(rows), share)

    def _merged(self, share: int, new: pa.Table, gone: Keys | None) -> Batches:
        if share == len(self.shared.runs):
            whole = new.combine_chunks().to_batches()
            for batch in whole:
                for _, rows in parted(batch, self.shared.partition_by):
                    yield from merged(
                        (), self.order.sorted(pa.Table.from_batches([rows])), self.order
                    )
            return
        runs = ([self._rows(index, gone) for index in run] for run in self.shared.runs[share])
        yield from merged(runs, self.order.sorted(new), self.order)

    def _rows(self, index: int, gone: Keys | None) -> Batches:
        for rows in self.reader.read(self.reader.files[index]):
            yield rows if gone is None else without(rows, gone)

    def _apart(self, batches: Batches) -> Batches:
        if not any(self.slots.starts.values()):
            yield from batches
            return
        for rows in batches:
            arrays = [*rows.columns, self.slots(rows)]
            yield pa.RecordBatch.from_arrays(arrays, names=[*rows.schema.names, SLOT])
