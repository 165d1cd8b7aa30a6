"""Rows of an answer that changed, as an increment takes them: packed, and looked up among files."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic

import pyarrow as pa

from singerlake.engine.base import Engine, R
from singerlake.ops.publish.write.published_files import conformed
from singerlake.publish.ranges import Found, Places
from singerlake.rows.batches.packing import pack, unpack
from singerlake.rows.batches.steps import Batches

BEFORE, AFTER = "before", "after"
_PACKED = "gone boolean, rows binary, found binary"


@dataclass(frozen=True)
class Changes(Generic[R]):
    """The changes of an answer between two states, on an engine.

    Attributes:
        pairs: Each row of the answer that differs, once: structs ``before`` and ``after`` of the
            answer's columns. One is null if the row is not in that answer; both never are.
        schema: The answer's columns.
        key: Those by which rows are the same. Without any, one of the two is null in each pair.
    """

    engine: Engine[R]
    pairs: R
    schema: pa.Schema
    key: tuple[str, ...]

    @contextmanager
    def located(self, places: Places) -> Iterator[Located[R]]:
        """Compute the rows, and look them up among files; they are kept within."""
        by = (key.column for key in places.partition_by)
        bounded = () if places.bounded is None else (places.bounded,)
        # What says where a row was, and which; nothing else is needed of it.
        gone = pa.schema([self.schema.field(n) for n in dict.fromkeys((*self.key, *by, *bounded))])
        step = _Locator(places, gone, self.schema)
        engine = self.engine
        with engine.keep(engine.map(self.pairs, step, _PACKED)) as kept:
            found = step.nothing()
            for row in engine.collect(engine.having(kept, "found")):
                found.add(pickle.loads(bytes(row["found"])))  # noqa: S301  # of our own tasks
            yield Located(engine, engine.having(kept, "rows"), self.schema, self.key, found)


@dataclass
class PlacesFound:
    """The places of changed rows.

    Attributes:
        gone: How many there are of the former.
        come: And of the latter.
        changed: How many rows differ; one that was and is counts once.
    """

    before: Found
    after: Found
    gone: int = 0
    come: int = 0
    changed: int = 0

    def add(self, other: PlacesFound) -> None:
        """Count others too."""
        self.before.add(other.before)
        self.after.add(other.after)
        self.gone += other.gone
        self.come += other.come
        self.changed += other.changed


@dataclass(frozen=True)
class Located(Generic[R]):
    """Changed rows, and the files that they lie in.

    Attributes:
        rows: Packed: some that are gone, or others now, and some as they are.
        schema: The columns of the latter.
        key: The columns by which rows are the same.
        found: Where they lie.
    """

    engine: Engine[R]
    rows: R
    schema: pa.Schema
    key: tuple[str, ...]
    found: PlacesFound


@dataclass
class _Locator:
    """Packs the rows of pairs, and looks them up.

    Attributes:
        gone: The columns wanted of rows as they were.
        come: Those of rows as they are.
    """

    places: Places
    gone: pa.Schema
    come: pa.Schema

    def nothing(self) -> PlacesFound:
        """No row."""
        return PlacesFound(self.places.nothing(), self.places.nothing())

    def __call__(self, batches: Batches) -> Batches:
        found = self.nothing()
        for batch in batches:
            gone, come = _side(batch, BEFORE, self.gone), _side(batch, AFTER, self.come)
            found.before.add(self.places.find(gone))
            found.after.add(self.places.find(come))
            # Without a key, and without an order, no column is needed of rows that are gone.
            found.gone += batch.num_rows - batch.column(BEFORE).null_count
            found.come += come.num_rows
            found.changed += batch.num_rows
            for is_gone, rows in ((True, gone), (False, come)):
                if rows.num_rows:
                    yield _packed(is_gone, pack(rows), None)
        yield _packed(None, None, pickle.dumps(found))


def _side(batch: pa.RecordBatch, name: str, schema: pa.Schema) -> pa.RecordBatch:
    side = batch.column(name)
    side = side.filter(side.is_valid())
    names = [side.type.field(at).name for at in range(side.type.num_fields)]
    rows = pa.RecordBatch.from_arrays(side.flatten(), names=names)
    return conformed(rows, schema)


def _packed(gone: bool | None, rows: bytes | None, found: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([gone], pa.bool_()),
            pa.array([rows], pa.binary()),
            pa.array([found], pa.binary()),
        ],
        names=["gone", "rows", "found"],
    )


def unpacked(batches: Batches) -> Iterator[tuple[bool, pa.RecordBatch]]:
    """Give packed rows, and whether they are gone."""
    for batch in batches:
        for gone, rows in zip(
            *(batch.column(n).to_pylist() for n in ("gone", "rows")), strict=True
        ):
            for some in unpack(rows).to_batches():
                yield gone, some


def come(batches: Batches) -> Batches:
    """Give the rows as they are of packed ones."""
    return (rows for gone, rows in unpacked(batches) if not gone)
