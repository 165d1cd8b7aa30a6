"""Whether rows may have a key: a value in each of its columns, and no two rows the same.

And whether a table folded by it has the rows that it has now, or others come back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.engine.base import Engine, Schema
from singerlake.errors import DamagedError
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.quantities import count
from singerlake.rows.batches import packing
from singerlake.rows.batches.row_columns import aliases
from singerlake.rows.batches.steps import Batches, Pipeline, Step
from singerlake.rows.blocks import positions
from singerlake.rows.changes.row_ids import id_text
from singerlake.rows.state import keys, newest_rows
from singerlake.rows.state.keys import AT
from singerlake.rows.state.newest_rows import SPLIT_KEYS
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.safe_text import visible
from singerlake.snapshot import from_blocks

logger = logging.getLogger(__name__)
FIRST = 10
"""Keys that are shown; the others are counted."""
_LONGEST = 100
_FOUND = "lacking long, alike long, keys long, first binary"
_CODES = "part int, codes binary, folded boolean"
_DIFFER = "differ boolean"

Read: TypeAlias = Callable[[Step, Schema], Any]
"""Gives rows of a state to a step, and returns what an engine makes of them."""


@dataclass(frozen=True)
class KeyViolations:
    """The rows of a state that cannot have a key.

    Attributes:
        names: The key's columns.
        without: Rows that lack a value in one of them.
        alike: Rows that have their key in common with another.
        keys: Keys that several rows have.
        first: The first of these, as texts, with how many rows have each.
    """

    names: Sequence[str]
    without: int
    alike: int
    keys: int
    first: Sequence[tuple[Sequence[str], int]]

    def __bool__(self) -> bool:
        return bool(self.without or self.alike)

    def lines(self) -> Iterator[str]:
        """Say what is wrong, line by line."""
        listed = ", ".join(self.names)
        if self.without:
            lacks = "lacks" if self.without == 1 else "lack"
            yield f"  {count(self.without, 'row')} {lacks} a value that fits {listed}"
        if self.alike:
            yield f"  {count(self.alike, 'row')} have the same {listed} as another:"
        for values, rows in self.first:
            pairs = zip(self.names, values, strict=True)
            yield f"    {', '.join(f'{n} {visible(v)}' for n, v in pairs)}: {count(rows, 'row')}"


def key_violations(
    engine: Engine[Any], read: Read, columns: Columns, called: Sequence[str], rows: int = 0
) -> KeyViolations:
    """Find the rows of a state that cannot have a key.

    Args:
        engine: Compares them.
        read: Gives the rows; a value that does not fit its column is null.
        columns: The key's.
        called: What they are called in the rows.
        rows: How many there are, about.
    """
    parts = max(engine.parts, rows // from_blocks.PART_ROWS)
    shared = engine.exchange(read(CountedKeys(columns, called, parts), SPLIT_KEYS), parts, "part")
    found = engine.collect(engine.map(shared, _Repeated(len(columns)), _FOUND))
    tables = [packing.unpack(row["first"]) for row in found]
    first = _first(pa.concat_tables(tables), len(columns)) if tables else None
    total = {name: sum(row[name] for row in found) for name in ("lacking", "alike", "keys")}
    return KeyViolations(
        [name for name, _ in columns],
        total["lacking"],
        total["alike"],
        total["keys"],
        [] if first is None else [*_texts(first, columns)],
    )


def _texts(first: pa.Table, columns: Columns) -> Iterator[tuple[list[str], int]]:
    compared = keys.compared_columns(columns)
    for *values, rows in zip(*(column.to_pylist() for column in first.columns), strict=True):
        pairs = zip(values, compared, strict=True)
        yield [id_text([value], (one,))[:_LONGEST] for value, one in pairs], rows


@dataclass
class CountedKeys:
    """Counts the rows of each key among some rows, and splits the keys by part.

    The rows that lack a value have one key together, of nulls alone.

    Attributes:
        columns: The key's.
        called: What they are called in the rows.
        parts: How many parts there are.
    """

    columns: Columns
    called: Sequence[str]
    parts: int

    def __call__(self, batches: Batches) -> Batches:
        """Take the rows of a file, or of a task's blocks."""
        names, lacking = aliases(len(self.columns)), 0
        nothing = keys.none(self.columns)
        pieces = [nothing]
        for batch in batches:
            arrays = [batch.column(name) for name in self.called]
            rows = keys.table(arrays, self.columns, np.ones(len(batch), dtype=np.int64))
            if (mask := keys.lacking(rows.select(names))) is not None:
                lacking += int(np.count_nonzero(mask))
                rows = rows.filter(pa.array(~mask))
            pieces.append(rows)
        counted = _summed(pieces, names)
        if lacking:
            none = {field.name: pa.nulls(1, field.type) for field in counted.schema}
            none[AT] = pa.array([lacking], pa.int64())
            counted = pa.concat_tables([counted, pa.table(none, schema=counted.schema)])
        yield newest_rows.split(counted, self.parts)


@dataclass
class _Repeated:
    """Counts the rows of a part that lack their key, or have it in common with another.

    Attributes:
        count: How many columns the key has.
    """

    count: int

    def __call__(self, parts: Batches) -> Batches:
        """Take all keys of one part."""
        found = newest_rows.tables(parts)
        if not found:
            return
        names = aliases(self.count)
        counted = _summed(found, names)
        mask = keys.lacking(counted.select(names))
        lacking = np.zeros(len(counted), dtype=bool) if mask is None else mask
        rows = packing.one_array(counted.column(AT)).to_numpy()
        alike = counted.filter(pa.array(~lacking & (rows > 1)))
        yield pa.RecordBatch.from_pydict(
            {
                "lacking": pa.array([int(rows[lacking].sum())], pa.int64()),
                "alike": pa.array([pc.sum(alike.column(AT)).as_py() or 0], pa.int64()),
                "keys": pa.array([len(alike)], pa.int64()),
                "first": pa.array([packing.pack(_first(alike, self.count))], pa.binary()),
            }
        )


def _summed(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """Add up the rows of each key."""
    grouped = pa.concat_tables(tables).group_by([*names], use_threads=False)
    return grouped.aggregate([(AT, "sum")]).rename_columns([*names, AT])


def _first(alike: pa.Table, width: int) -> pa.Table:
    """Return the keys that most rows have, and of those the first."""
    order = [(AT, "descending"), *((name, "ascending") for name in aliases(width))]
    return alike.sort_by(order).slice(0, FIRST)


def folds_alike(engine: Engine[Any], table: Table, after: TableState, places: Read) -> bool:
    """Tell whether the fold under another key leaves the rows that there are.

    Args:
        engine: Folds and compares.
        table: The table.
        after: The table with the key.
        places: Gives the positions of its rows, as ``positions.each_code`` does.
    """
    shape = shape_of(after)
    columns = shape.key_columns
    folded = Shape(columns, tuple(range(len(columns))), shape.survival, apart=shape.apart)
    plan = from_blocks.planned(engine, table, after, shape=folded, shown=True)
    sides = [_Share(plan.parts, folded=side) for side in (False, True)]
    now = places(sides[0], _CODES)
    then = from_blocks.through(engine, plan, Pipeline((positions.each_code, sides[1])), _CODES)
    shared = engine.exchange(engine.union(now, then), plan.parts, "part")
    try:
        return not engine.collect(engine.map(shared, _differing, _DIFFER))
    except DamagedError as error:
        # A row that is in the state no more has a value that no key can have.
        logger.info("the rows of %s are written again: %s", table.name, error)
        return False


@dataclass
class _Share:
    """Splits positions, by the blocks that they name.

    Attributes:
        parts: How many parts there are.
        folded: Whether they are those of the fold, or those that there are.
    """

    parts: int
    folded: bool

    def __call__(self, batches: Batches) -> Batches:
        """Take positions, as ``positions.each_code`` gives them."""
        for batch in batches:
            codes = batch.column("codes").to_numpy()
            part = positions.blocks_of(codes) % self.parts
            numbers = np.unique(part)
            yield pa.RecordBatch.from_pydict(
                {
                    "part": pa.array(numbers, pa.int32()),
                    "codes": pa.array([codes[part == n].tobytes() for n in numbers], pa.binary()),
                    "folded": pa.repeat(pa.scalar(self.folded), len(numbers)),
                }
            )


def _differing(batches: Batches) -> Batches:
    """Give a row if the two sides of a part have other positions."""
    sides: dict[bool, list[bytes]] = {False: [], True: []}
    for batch in batches:
        cells = (batch.column(name).to_pylist() for name in ("codes", "folded"))
        for codes, folded in zip(*cells, strict=True):
            sides[folded].append(codes)
    now, then = (
        np.sort(np.frombuffer(b"".join(pieces), dtype=np.int64)) for pieces in sides.values()
    )
    if not np.array_equal(now, then):
        yield pa.RecordBatch.from_pydict({"differ": [True]})
