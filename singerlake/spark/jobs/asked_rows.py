"""Row sets put together: for each row of a table what it is asked to become.

A change may have several parts, applied in order: a row that the first part inserts the second
may change. They are composed here, before the table's state is looked at, so that the state is
read once, whatever the number of parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.errors import UsageError
from singerlake.format.names import TableName
from singerlake.maintenance.change import Mode
from singerlake.records.problems import MOST, Problem, Problems
from singerlake.records.row_columns import alias
from singerlake.records.shape import Shape
from singerlake.spark.jobs.row_set import (
    DELETED,
    LINE,
    OMITTED,
    PROBLEMS,
    ROW_ID,
    ROW_VERSION,
    SOURCE,
    RowSet,
)
from singerlake.spark.state.frames import row_id, spark_type

AT_BLOCK, AT_ROW = "at_block", "at_row"
"""The position that a row's id names; only in tables without a key."""
SETS = "sets"
"""Indexes of the columns that are set."""
GONE = "gone"
"""Whether the row shall not be there."""
ANEW = "anew"
"""Whether it is deleted and inserted again: nothing of what it had stays."""
NEED = "need"
"""Whether the row must be there before (true), must not be (false), or may be (null)."""
READ = "read"
"""The versions in which the row was read, as an array; null where nobody says."""
FAULT = "fault"
"""What cannot be: a struct of column, value and reason; null where nothing is wrong."""
_PART = "part"
_POSITION = r"^([0-9]{1,18}):([0-9]{1,9})$"
_KEYLESS = "the table has no key, so only _row_id says which row is meant"
_NO_ID = "is no id of a row of this table"
_NEW_KEY = (
    ": the key of a row cannot be changed; delete the one row, and insert the other without _row_id"
)


@dataclass(frozen=True)
class Part:
    """One step of a change.

    Attributes:
        row_sets: Rows that are one set: no row may be in them twice.
        mode: What is asked of them.
    """

    row_sets: tuple[RowSet, ...]
    mode: Mode


@dataclass(frozen=True)
class Asked:
    """What a change asks of a table's rows.

    Attributes:
        frame: The cells of the columns; the join columns where these are others; and ``SOURCE``,
            ``LINE``, ``SETS``, ``GONE``, ``NEED``, ``READ``, ``FAULT`` and the part.
        columns: The columns that are named, and those of the key, as indexes.
        join: What a row is found by: its key's columns, or its position.
        sources: What messages call the rows' sources.
        modes: Those of the parts.
    """

    frame: DataFrame
    columns: tuple[int, ...]
    join: tuple[str, ...]
    sources: tuple[str, ...]
    modes: tuple[Mode, ...]

    @property
    def replaces(self) -> bool:
        """Whether rows that are not asked for go."""
        return Mode.REPLACE in self.modes

    @property
    def cells(self) -> list[str]:
        """What the columns are called inside."""
        return [alias(index) for index in self.columns]

    @property
    def found(self) -> Column:
        """Whether a row says which one it means; those that do not are inserted."""
        return reduce(and_, (F.col(name).isNotNull() for name in self.join))


def fault(column: str | None, value: Column | None, reason: Column | str) -> Column:
    """Build a fault."""
    shown = F.lit(None) if value is None else value
    return F.struct(
        F.lit(column).cast("string").alias("column"),
        shown.cast("string").alias("value"),
        (F.lit(reason) if isinstance(reason, str) else reason).alias("reason"),
    )


def asked(table: TableName, shape: Shape, parts: Sequence[Part]) -> Asked:
    """Put the rows of all parts together, each still by itself.

    Args:
        table: For errors.
        shape: The table's.
        parts: In the order in which they are applied.

    Raises:
        UsageError: The parts contradict each other.
    """
    modes = tuple(part.mode for part in parts)
    if Mode.REPLACE in modes and len(parts) > 1:
        raise UsageError(
            f"replacing all rows of {table} leaves nothing for the other parts of the change: do "
            "it in a change of its own"
        )
    named = {index for part in parts for one in part.row_sets for index in one.columns}
    columns = tuple(sorted({*named, *shape.keys}))
    frames: list[DataFrame] = []
    sources: list[str] = []
    for number, part in enumerate(parts):
        for row_set in part.row_sets:
            rows = _normal(row_set, part.mode, shape, columns)
            rows = rows.withColumn(SOURCE, F.col(SOURCE) + F.lit(len(sources)))
            frames.append(rows.withColumn(_PART, F.lit(number)))
            sources += row_set.sources
    join = tuple(shape.key_aliases) or (AT_BLOCK, AT_ROW)
    return Asked(reduce(DataFrame.unionByName, frames), columns, join, tuple(sources), modes)


def _normal(row_set: RowSet, mode: Mode, shape: Shape, columns: Iterable[int]) -> DataFrame:
    """A row set's rows, with a cell for every column of the change and what is wrong with each."""
    id_texts = dict(zip(shape.keys, _id_texts(shape), strict=True))
    cells = []
    for index in columns:
        type_ = spark_type(shape.columns[index][1])
        cell = F.col(alias(index)) if index in row_set.columns else F.lit(None).cast(type_)
        if index in id_texts:  # a row may be named by its id alone
            cell = F.coalesce(cell, id_texts[index].try_cast(type_))
        cells.append(cell.alias(alias(index)))
    gone = F.lit(True) if mode is Mode.DELETE else F.coalesce(F.col(DELETED), F.lit(False))
    rows = row_set.frame
    if PROBLEMS in rows.columns:
        rows = rows.where(F.col(PROBLEMS).isNull())
    frame = rows.select(
        *cells,
        *_position(shape),
        SOURCE,
        LINE,
        _sets(row_set, shape).alias(SETS),
        gone.alias(GONE),
        F.when(F.col(ROW_VERSION).isNotNull(), F.array(ROW_VERSION)).alias(READ),
        ROW_ID,
    )
    need = {Mode.INSERT: F.lit(False), Mode.UPDATE: F.lit(True)}.get(mode, F.lit(None))
    frame = frame.withColumn(NEED, F.when(~F.col(GONE), need.cast("boolean")))
    return frame.withColumn(FAULT, _fault(shape, mode)).drop(ROW_ID)


def _sets(row_set: RowSet, shape: Shape) -> Column:
    """The columns that a row sets: not its key, which says only which row is meant."""
    indexes = [F.lit(index) for index in row_set.columns if index not in shape.keys]
    every = F.array(*indexes).cast("array<int>")
    return F.coalesce(F.array_except(every, F.col(OMITTED)), every)


def _id_texts(shape: Shape) -> list[Column]:
    """The texts of the key's parts in a row's id."""
    if len(shape.keys) <= 1:
        return [F.col(ROW_ID)] * len(shape.keys)
    parts = F.from_json(F.col(ROW_ID), "array<string>")
    return [F.get(parts, F.lit(index)) for index in range(len(shape.keys))]


def _position(shape: Shape) -> list[Column]:
    if shape.keys:
        return []
    block, row = (F.regexp_extract(F.col(ROW_ID), _POSITION, group) for group in (1, 2))
    return [block.try_cast("bigint").alias(AT_BLOCK), row.try_cast("int").alias(AT_ROW)]


def _fault(shape: Shape, mode: Mode) -> Column:
    """What is wrong with a row by itself."""
    given = F.col(ROW_ID)
    if not shape.keys:
        found = F.when(
            given.isNotNull() & F.col(AT_BLOCK).isNull(), fault("_row_id", given, _NO_ID)
        )
        named = F.lit(mode is Mode.UPDATE) | F.col(GONE)
        return found.when(given.isNull() & named, fault("_row_id", None, _KEYLESS))
    faults = []
    for name, key in zip(shape.key_names, shape.key_aliases, strict=True):
        null = F.col(key).isNull()
        faults.append(F.when(null & given.isNull(), fault(name, None, "a key cannot be null")))
        faults.append(F.when(null, fault("_row_id", given, _NO_ID)))
    own = row_id(shape)
    other = F.concat(F.lit("is the id of another row than "), own, F.lit(_NEW_KEY))
    return F.coalesce(*faults, F.when(given != own, fault("_row_id", given, other)))


@dataclass(frozen=True)
class Tally:
    """What a pass over all rows that are asked for has shown.

    Attributes:
        named: Rows that say which row of the table they mean.
        repeated: Those that one part names twice.
    """

    named: int
    repeated: Problems


def tally(wanted: Asked, shape: Shape) -> Tally:
    """Count the rows that are asked for, and find those that one part names twice."""
    place = F.struct(SOURCE, LINE)
    found = (
        wanted.frame.where(wanted.found)
        .groupBy(_PART, *wanted.join)
        .agg(F.count(F.lit(1)).alias("n"), F.min(place).alias("a"), F.max(place).alias("b"))
    )
    more = F.col("n") > 1
    counted = found.agg(F.sum("n"), F.count_if(more)).collect()[0]
    named, total = counted[0] or 0, counted[1]
    problems = Problems(total)
    if not total:
        return Tally(named, problems)
    text = row_id(shape) if shape.keys else F.concat_ws(":", *wanted.join)
    names = ", ".join(shape.key_names) or "_row_id"
    some = found.where(more).select("n", "a", "b", text).orderBy("b").limit(MOST)
    for times, first, last, id_ in some.collect():
        source, other = wanted.sources[last[SOURCE]], wanted.sources[first[SOURCE]]
        where = "another row" if first[LINE] is None else f"line {first[LINE]:,}"
        where += "" if other == source else f" of {other}"
        often = "" if times == 2 else f", and {times:,} times in all"  # noqa: PLR2004
        reason = f"is there already, on {where}{often}"
        problems.first.append(Problem(source, last[LINE], names, id_, reason))
    return Tally(named, problems)


def check_named(wanted: Asked, table: TableName, shape: Shape) -> None:
    """Refuse a change of rows that are there, where nothing at all says which ones are meant.

    Args:
        wanted: What is asked; no row of it names one of the table.
        table: For the error.
        shape: The table's.

    Raises:
        UsageError: The table has no key, and no row has an id.
    """
    if shape.keys or {Mode.UPDATE, Mode.DELETE}.isdisjoint(wanted.modes):
        return
    reasons = wanted.frame.select(F.col(FAULT)["reason"].alias("reason")).distinct()
    found = [row["reason"] for row in reasons.limit(3).collect() if row["reason"] is not None]
    if found == [_KEYLESS]:
        raise UsageError(
            f"{table} has no key, and none of the given rows says with _row_id which row it means: "
            f"give the table a key (singerlake alter {table} set-key COLUMN), or change rows as "
            "query --provenance gives them; nothing was changed"
        )


def composed(wanted: Asked) -> DataFrame:
    """Make one row a key of what the parts ask of it in order, with ``ANEW``."""
    kept = [*dict.fromkeys((*wanted.cells, *wanted.join)), SOURCE, LINE]
    kept += [SETS, GONE, NEED, READ, FAULT]
    plain = wanted.frame.withColumn(ANEW, F.lit(False))
    if len(wanted.modes) == 1:
        return plain.select(*kept, ANEW)
    by = [F.col(name) for name in wanted.join]
    ordered = _in_order(wanted.frame.where(wanted.found), by)
    since = F.col(_PART) > F.coalesce("last_gone", F.lit(-1))
    cells = {}
    for index in wanted.columns:
        if (name := alias(index)) not in wanted.join:
            set_here = F.when(since & F.array_contains(SETS, F.lit(index)), F.col(_PART))
            cells[name] = F.max_by(F.struct(name), set_here).alias(f"set_{name}")
    last, first = (F.max_by, F.min_by)
    rows = ordered.groupBy(*by).agg(
        *cells.values(),
        last(F.struct(SOURCE, LINE), _PART).alias("place"),
        last(GONE, _PART).alias(GONE),
        first(NEED, _PART).alias(NEED),
        F.flatten(F.collect_list(READ)).alias(READ),
        first(FAULT, F.when(F.col(FAULT).isNotNull(), F.col(_PART))).alias(FAULT),
        F.max("last_gone").isNotNull().alias("cleared"),
    )
    sets = (F.when(F.col(f"set_{n}").isNotNull(), F.lit(int(n[1:]))) for n in cells)
    rows = rows.select(
        *by,
        *(F.col(f"set_{name}.{name}").alias(name) for name in cells),
        F.col(f"place.{SOURCE}").alias(SOURCE),
        F.col(f"place.{LINE}").alias(LINE),
        F.array_compact(F.array(*sets)).cast("array<int>").alias(SETS),
        GONE,
        NEED,
        READ,
        FAULT,
        (F.col("cleared") & ~F.col(GONE)).alias(ANEW),
    )
    return rows.unionByName(plain.where(~wanted.found).select(*kept, ANEW))


def _in_order(frame: DataFrame, by: list[Column]) -> DataFrame:
    """Hold each step of a row against the one before; ``last_gone`` is the last that deletes it."""
    whole = Window.partitionBy(*by)
    before = F.lag(GONE).over(whole.orderBy(_PART))
    clash = F.when(
        F.col(NEED) & before,
        fault(None, None, "is to be updated, and an earlier part of the change deletes it"),
    ).when(
        ~F.col(NEED) & ~before,
        fault(None, None, "is to be inserted, and an earlier part of the change does so already"),
    )
    gone = F.max(F.when(F.col(GONE), F.col(_PART))).over(whole)
    return frame.select(
        *[name for name in frame.columns if name != FAULT],
        F.coalesce(FAULT, clash).alias(FAULT),
        gone.alias("last_gone"),
    )
