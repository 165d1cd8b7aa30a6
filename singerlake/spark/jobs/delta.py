"""The difference between a table's state and what is asked of its rows, as a Spark frame.

Cells are compared as typed values. Rows that are already as asked take no further part, so what
is written later is what changes, and nothing is written where nothing does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.errors import ConflictError
from singerlake.format.names import TableName
from singerlake.records.given_rows import special_names
from singerlake.records.problems import FIRST, MOST, Problems, RowProblem
from singerlake.records.row_columns import BLOCK, MISFITS, ORDINAL, alias
from singerlake.records.shape import Shape
from singerlake.spark.jobs.asked_rows import (
    ANEW,
    AT_BLOCK,
    AT_ROW,
    FAULT,
    GONE,
    NEED,
    READ,
    SETS,
    Asked,
    fault,
)
from singerlake.spark.jobs.row_set import LINE, SOURCE
from singerlake.spark.state.frames import row_id

STATUS = "status"
INSERTED, UPDATED, DELETED, UNCHANGED = "inserted", "updated", "deleted", "unchanged"
ABSENT, WRONG, STALE = "absent", "wrong", "stale"
"""What becomes of a row; the last three: it is to be deleted and was not there, it cannot be, and
it was read in another version."""
POSITION_BLOCK, POSITION_ROW = "block", "row"
"""Where the row is now; null for one that is written as a new record."""
CHANGED = "changed"
"""Indexes of the columns whose cells are others afterwards; of a new record, those that are set."""
SMALL = 200_000
"""Rows asked for whose keys every executor may hold at once."""


@dataclass(frozen=True)
class Delta:
    """What becomes of a table's rows.

    Attributes:
        frame: A row for each that is asked for, or goes: ``STATUS``, the position, ``CHANGED``,
            the cells, ``SOURCE`` and ``LINE``, ``FAULT``, ``READ``, and the row's version now.
        wanted: What is asked.
        counts: Rows by status.
    """

    frame: DataFrame
    wanted: Asked
    counts: dict[str, int]

    @property
    def anew(self) -> bool:
        """Whether there may be rows that are deleted and inserted again."""
        return len(self.wanted.modes) > 1

    @property
    def changes(self) -> int:
        """Rows that are others afterwards."""
        return sum(self.counts.get(status, 0) for status in (INSERTED, UPDATED, DELETED))


def delta_frame(
    rows: DataFrame, wanted: Asked, present: DataFrame, shape: Shape, *, small: bool, blind: bool
) -> DataFrame:
    """Compare what is asked with what is there.

    Args:
        rows: One row a key, as ``asked_rows.composed`` gives them.
        wanted: What they ask.
        present: The state's rows with provenance.
        shape: The table's.
        small: Whether the rows asked for are few; then the state is not shuffled.
        blind: Whether the versions in which rows were read do not matter.
    """
    set_columns = [index for index in wanted.columns if index not in shape.keys]
    now = present.select(
        *(F.col(name).alias(f"now_{name}") for name in found_by(shape)),
        *(F.col(alias(index)).alias(f"now_{alias(index)}") for index in set_columns),
        F.col(BLOCK).alias("now_block"),
        F.col(ORDINAL).alias("now_row"),
        F.col(MISFITS).alias("now_misfits"),
    )
    pairs = zip(wanted.join, found_by(shape), strict=True)
    same = reduce(and_, (F.col(mine) == F.col(f"now_{theirs}") for mine, theirs in pairs))
    rows = rows.withColumn("is_asked", F.lit(True))
    how = "full_outer" if wanted.replaces else "left_outer"
    if small and not wanted.replaces:
        keys = F.broadcast(rows.where(wanted.found).select(*wanted.join))
        now = now.join(keys, same, "left_semi")
    joined = rows.join(now, same, how)
    return _judged(joined, wanted, set_columns, shape, blind=blind)


def found_by(shape: Shape) -> list[str]:
    """What a row of the state is found by."""
    return shape.key_aliases or [BLOCK, ORDINAL]


def _judged(
    joined: DataFrame, wanted: Asked, set_columns: list[int], shape: Shape, *, blind: bool
) -> DataFrame:
    there = F.col("now_block").isNotNull()
    changed = F.when(
        there & ~F.col(ANEW),
        F.array_compact(F.array(*(_changed(index) for index in set_columns))),
    ).otherwise(F.col(SETS))
    judged = joined.withColumn(FAULT, F.coalesce(FAULT, _unmet(wanted, shape, there, blind=blind)))
    judged = judged.withColumn(CHANGED, changed.cast("array<int>"))
    stale = F.lit(False)
    if not blind:
        others = F.exists(READ, lambda version: ~version.eqNullSafe(F.col("now_block")))
        stale = F.coalesce(others, F.lit(False))
    status = (
        F.when(F.col("is_asked").isNull(), F.lit(DELETED))
        .when(F.col(FAULT).isNotNull(), F.lit(WRONG))
        .when(stale, F.lit(STALE))
        .when(F.col(GONE) & there, F.lit(DELETED))
        .when(F.col(GONE), F.lit(ABSENT))
        .when(~there, F.lit(INSERTED))
        .when(F.col(ANEW) | (F.size(CHANGED) > 0), F.lit(UPDATED))
        .otherwise(F.lit(UNCHANGED))
    )
    if not shape.keys and len(wanted.modes) > 1:
        # Only the old row goes by the id: what is given again after it was deleted is a new row.
        again = (status == UPDATED) & F.col(ANEW)
        both = F.array(F.lit(DELETED), F.lit(INSERTED))
        status = F.explode(F.when(again, both).otherwise(F.array(status)))
    judged = judged.withColumn(STATUS, status)
    kept = F.col(STATUS).isin(INSERTED, UPDATED)
    stays = (F.col(STATUS) == UPDATED) & ~F.coalesce(ANEW, F.lit(False))
    position = stays | (F.col(STATUS) == DELETED)
    cells = [F.when(kept, F.col(alias(index))).alias(alias(index)) for index in set_columns]
    pairs = zip(wanted.join, found_by(shape), strict=True)
    return judged.select(
        STATUS,
        F.when(position, F.col("now_block")).alias(POSITION_BLOCK),
        F.when(position, F.col("now_row")).alias(POSITION_ROW),
        CHANGED,
        # Also of a row that nobody asked for and that goes.
        *(F.coalesce(mine, f"now_{theirs}").alias(mine) for mine, theirs in pairs),
        *cells,
        SOURCE,
        LINE,
        FAULT,
        READ,
        F.col("now_block").alias("version_now"),
    )


def _changed(index: int) -> Column:
    """The index of a column where its cell is to be another, else null.

    A value that does not fit its column reads as null, and is another than any that is asked for.
    """
    name = alias(index)
    misfit = F.try_element_at("now_misfits", F.lit(index)).isNotNull()
    other = ~F.col(name).eqNullSafe(F.col(f"now_{name}")) | F.coalesce(misfit, F.lit(False))
    return F.when(F.array_contains(SETS, F.lit(index)) & other, F.lit(index))


def _unmet(wanted: Asked, shape: Shape, there: Column, *, blind: bool) -> Column:
    """What a row needs of the state and does not find."""
    columns = ", ".join(shape.key_names) or "_row_id"
    id_ = asked_id(shape)
    is_there = fault(columns, id_, "is in the table already, and rows are only to be inserted")
    is_not = fault(columns, id_, "is not in the table, and rows are only to be updated")
    gone = fault("_row_id", id_, "is no row of the table now")
    unmet = F.when(~F.col(NEED) & there, is_there).when(F.col(NEED) & ~there, is_not)
    if shape.keys:
        return unmet
    # An id names a row that was there, so whoever gives one wants that row and no other. Of one
    # that was read in some version it is said in which.
    unread = F.lit(blind) | (F.coalesce(F.size(READ), F.lit(0)) <= 0)
    return unmet.when(wanted.found & ~there & ~F.col(GONE) & unread, gone)


def asked_id(shape: Shape) -> Column:
    """The id of the row that is meant; empty where none is, in a table without a key."""
    return row_id(shape) if shape.keys else F.concat_ws(":", AT_BLOCK, AT_ROW)


def problems_of(delta: Delta, shape: Shape) -> Problems:
    """Fetch what cannot be: the first, by place, and their number."""
    problems = Problems(delta.counts.get(WRONG, 0))
    if not problems.total:
        return problems
    id_ = asked_id(shape).alias("id")
    wrong = delta.frame.where(F.col(STATUS) == WRONG).select(SOURCE, LINE, id_, FAULT)
    for source, line, row, found in wrong.orderBy(SOURCE, LINE, "id").limit(MOST).collect():
        one = RowProblem(0, found["column"], found["value"], found["reason"])
        problems.first.append(one.at(delta.wanted.sources[source], line, row))
    return problems


def stale_problems(delta: Delta, shape: Shape) -> Problems:
    """Fetch which rows were read in another version than they have: the first, by place."""
    problems = Problems(delta.counts.get(STALE, 0))
    if not problems.total:
        return problems
    name = special_names(shape.names).row_version
    for stale in _stale(delta, shape, MOST):
        reason = f"is not the version of row {stale['id']} now: it {_is_now(stale['version_now'])}"
        one = RowProblem(0, name, stale["read"], reason)
        source = delta.wanted.sources[stale[SOURCE]]
        problems.first.append(one.at(source, stale[LINE], stale["id"]))
    return problems


def stale_error(delta: Delta, table: TableName, shape: Shape) -> ConflictError | None:
    """Say which rows were read in another version than they have; None where none was."""
    count = delta.counts.get(STALE, 0)
    if not count:
        return None
    named = ", ".join(shape.key_names) or "_row_id"
    rows = "1 row" if count == 1 else f"{count:,} rows"
    lines = [
        f"{rows} of {table} changed since they were read; nothing was changed:"
        if count > 1
        else f"1 row of {table} changed since it was read; nothing was changed:"
    ]
    for id_, read, now, source, line in _stale(delta, shape, FIRST):
        where = "" if line is None else f" ({delta.wanted.sources[source]}, line {line:,})"
        lines.append(f"  {named} {id_}: read as row version {read}, {_is_now(now)}{where}")
    if count > FIRST:
        lines.append(f"  and {count - FIRST:,} more")
    lines.append(
        "read the rows again and change those; or change them whatever they are now, with "
        "--overwrite (overwrite=True in Python)"
    )
    error = ConflictError("\n".join(lines))
    error.lines = tuple(lines)
    error.problems = stale_problems(delta, shape)
    return error


def _stale(delta: Delta, shape: Shape, most: int) -> list[Row]:
    versions = F.array_join(F.array_distinct(READ), ", ").alias("read")
    stale = delta.frame.where(F.col(STATUS) == STALE).select(
        asked_id(shape).alias("id"), versions, "version_now", SOURCE, LINE
    )
    return stale.orderBy(SOURCE, LINE).limit(most).collect()


def _is_now(version: int | None) -> str:
    return "is gone now" if version is None else f"is row version {version} now"
