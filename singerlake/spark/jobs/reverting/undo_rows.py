"""What becomes of each row where transactions are undone: of the keys that they wrote, or all.

With a key, the newest row of a key at each boundary (before and after each group, and now) is an
aggregate over the rows written since, and those of the state before. So nothing but keys,
positions and digests is read, and a key that was written a million times takes no more room than
one that was written once. Without a key a row is its position, which is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.format.log import Block
from singerlake.lake import Table
from singerlake.maintenance.undo import Group, OnConflict, UndoPlan
from singerlake.records.blocks.bounded_keys import has_bounds
from singerlake.records.rows import packing
from singerlake.records.rows.row_columns import BLOCK, DELETED, DIGEST, ORDINAL, VERSION, aliases
from singerlake.records.state import activations
from singerlake.records.state.activations import Survival
from singerlake.records.state.shape import Shape, shape_of
from singerlake.snapshot import building
from singerlake.spark.state import fold, frames, from_blocks, index_build, index_rows
from singerlake.transactions.snapshot import Snapshot

NOW, GOAL, CONFLICT, TOUCHED = "now", "goal", "conflict", "touched"
"""The row that a key has, the one that it shall have, whether it was touched again since, and the
block of its newest row, be it a deletion. Rows are structs, null where there is none."""
MOST_KEYS = 10_000
"""Rows written whose keys are looked for in the blocks of the state before, if it has no index."""
_ROW = (BLOCK, ORDINAL, VERSION, DIGEST, DELETED)


def keyed_rows(
    spark: SparkSession, table: Table, wanted: UndoPlan, on_conflict: OnConflict
) -> DataFrame:
    """Give the rows of a table with a key that the transactions wrote, and what becomes of them.

    Args:
        spark: The session.
        table: The table.
        wanted: The plan.
        on_conflict: What becomes of rows that were touched again.

    Returns:
        The key's columns, ``NOW``, ``GOAL``, ``CONFLICT`` and ``TOUCHED``.
    """
    head = wanted.head
    columns = shape_of(head).key_columns
    keys = aliases(columns)
    rows = _rows(spark, table, wanted, Shape(columns, tuple(range(len(columns))), Survival()))
    boundaries: list[tuple[str, Snapshot | None]] = [(NOW, head)]
    for index, group in enumerate(wanted.groups):
        boundaries += [(_before(index), group.before), (_at(index), group.at)]
    newest = (
        rows.withColumn(fold.OWN, fold.own_place(keys))
        .groupBy(*keys, fold.OWN)
        .agg(*(_newest(name, state) for name, state in boundaries if state is not None))
    )
    states = newest.select(
        *keys,
        F.col(f"{NOW}.{BLOCK}").alias(TOUCHED),
        *(_if_there(name, state) for name, state in boundaries),
    )
    goal, conflict, wrote = F.col(NOW), F.lit(False), F.lit(False)
    for index in reversed(range(len(wanted.groups))):
        group, before, at = wanted.groups[index], F.col(_before(index)), F.col(_at(index))
        # Where the schema goes back, a row that came under it again reads otherwise.
        own = ~(_same_place(at, before) if group.restores_schema else _same_record(at, before))
        again = own & ~_same_record(goal, at) & ~_same_record(goal, before)
        back = own & ~again if on_conflict is not OnConflict.THEIRS else own
        wrote, conflict = wrote | own, conflict | again
        goal = F.when(back, before).otherwise(goal)
    return states.where(wrote).select(
        *keys, NOW, goal.alias(GOAL), conflict.alias(CONFLICT), TOUCHED
    )


def _before(index: int) -> str:
    return f"before{index}"


def _at(index: int) -> str:
    return f"at{index}"


def _rows(spark: SparkSession, table: Table, wanted: UndoPlan, shape: Shape) -> DataFrame:
    """All rows of the keys that matter: those of the state before, and all written since."""
    head, first = wanted.head, wanted.first_block
    since = [block for block in head.blocks if block.number > first]
    later = frames.read_blocks(spark, table, head, since, shape, digests=True)
    later = later.where(F.col(BLOCK) > first).select(*shape.aliases, *_ROW)
    earlier = None
    if (base := wanted.groups[0].before) is not None:
        earlier = _state_of_few(spark, table, wanted, base)
        if earlier is None:
            earlier = _state(spark, table, base, shape)
    if not wanted.activates:  # else they may have removed rows that they did not write
        keys = shape.aliases
        written = later.where(_within(wanted.groups)).select(*keys).distinct()
        later = _of_keys(later, written, keys)
        earlier = None if earlier is None else _of_keys(earlier, written, keys)
    return later if earlier is None else earlier.unionAll(later)


def _state(spark: SparkSession, table: Table, state: Snapshot, shape: Shape) -> DataFrame:
    """All rows of a state, by its index."""
    old = index_build.ensure(spark, table, state)
    own = zip(old.shape.key_aliases, shape.aliases, strict=True)
    named = [F.col(key).alias(name) for key, name in own]
    return fold.undeleted(index_rows.rows(spark, old, digests=True)).select(*named, *_ROW)


def _state_of_few(
    spark: SparkSession, table: Table, wanted: UndoPlan, state: Snapshot
) -> DataFrame | None:
    """The rows of a state with the keys that were written, and perhaps others.

    Returns:
        None where its index costs less, or all that it has is needed: the table is small, its index
        is there, or nearly so; many keys were written, or some that no block tells of.
    """
    columns = shape_of(wanted.head).key_columns
    blocks = [block for block in wanted.head.blocks if _may_be_within(block, wanted.groups)]
    if wanted.activates or sum(block.rows for block in blocks) > MOST_KEYS:
        return None
    if sum(block.rows for block in state.blocks) < building.LEAST_ROWS:
        return None  # and who reads it next has the index
    if state.key_reading != wanted.head.key_reading or not has_bounds(columns):
        return None
    if index_build.at_hand(table, state) is not None or index_build.has_base(table, state):
        return None
    shape = Shape(columns, tuple(range(len(columns))), Survival())
    rows = frames.read_blocks(spark, table, wanted.head, blocks, shape)
    written = rows.where(_within(wanted.groups)).select(*shape.aliases).distinct().toArrow()
    if any(column.null_count for column in written.columns):
        return None
    shape = replace(shape, survival=shape_of(state).survival)
    asked = [packing.pack(written)]
    found = from_blocks.rows(spark, table, state, digests=True, shape=shape, asked=asked)
    return fold.undeleted(found).select(*shape.aliases, *_ROW)


def _may_be_within(block: Block, groups: Sequence[Group]) -> bool:
    """Whether a block may have rows of some groups; a vacuum puts rows into later blocks."""
    oldest = block.first_version or block.number
    ranges = (group.blocks for group in groups)
    return any(oldest <= last and block.number > first for first, last in ranges)


def _of_keys(rows: DataFrame, wanted: DataFrame, keys: Sequence[str]) -> DataFrame:
    one, other = rows.alias("one"), wanted.alias("other")
    # A key with a null in it is of one row alone, which is among the rows that were written.
    equal = (F.col(f"one.{key}").eqNullSafe(F.col(f"other.{key}")) for key in keys)
    return one.join(other, reduce(Column.__and__, equal), "left_semi")


def _within(groups: Sequence[Group], block: str = BLOCK) -> Column:
    """Whether a row came with a transaction of some groups."""
    ranges = (group.blocks for group in groups)
    parts = ((F.col(block) > first) & (F.col(block) <= last) for first, last in ranges)
    return reduce(Column.__or__, parts)


def _newest(name: str, state: Snapshot) -> Column:
    """The newest row of a key up to a state, be it a deletion."""
    row = F.when(F.col(BLOCK) <= state.last_block, F.struct(*_ROW))
    return F.max(row).alias(name)


def _if_there(name: str, state: Snapshot | None) -> Column:
    """The row where it is one of the state; null where it is a deletion, or was removed."""
    if state is None:
        return F.lit(None).cast(_STRUCT).alias(name)
    there = ~F.col(f"{name}.{DELETED}")
    left = fold.survives(activations.survival(state.blocks), lambda one: F.col(f"{name}.{one}"))
    there &= F.lit(True) if left is None else left
    return F.when(there, F.col(name)).alias(name)


_STRUCT = f"struct<{BLOCK}:bigint,{ORDINAL}:int,{VERSION}:bigint,{DIGEST}:binary,{DELETED}:boolean>"


def _same_place(one: Column, other: Column) -> Column:
    return _both(one, other, lambda name: one[name] == other[name], (BLOCK, ORDINAL))


def _same_record(one: Column, other: Column) -> Column:
    """Whether two rows are the same bytes, wherever they lie; or neither is there."""
    return _both(one, other, lambda name: one[name] == other[name], (DIGEST,))


def _both(
    one: Column, other: Column, equal: Callable[[str], Column], names: Sequence[str]
) -> Column:
    neither = one.isNull() & other.isNull()
    same = reduce(Column.__and__, (equal(name) for name in names))
    return neither | F.coalesce(one.isNotNull() & other.isNotNull() & same, F.lit(False))


def needs_writing(wanted: UndoPlan) -> Column:
    """Whether the row that a key has is another than the one that it shall have.

    One that was sent again as it was stays, but where people have given a column another default
    in between, which the old row does not show, or where the schema goes back.
    """
    now, goal = F.col(NOW), F.col(GOAL)
    if any(group.restores_schema for group in wanted.groups):
        return ~_same_place(now, goal)
    same = _same_record(now, goal)
    for start in wanted.head.overlay.default_starts:
        both = (now[BLOCK] >= start) == (goal[BLOCK] >= start)
        same &= F.coalesce(both, F.lit(True))
    return ~(same | _same_place(now, goal))


def keyless_rows(spark: SparkSession, table: Table, wanted: UndoPlan) -> tuple[DataFrame, int, int]:
    """Give the rows that a table without a key shall have, by position.

    Args:
        spark: The session.
        table: The table.
        wanted: The plan; no other transaction since has an ACTIVATE_VERSION.

    Returns:
        The rows as ``block`` and ``row``, how many of those that are there go, and how many that
        are not there come back.
    """
    now = _positions(spark, table, wanted.head)
    if not wanted.activates:  # all that there was is still there, in its place
        own = _within(wanted.groups, "block")
        return now.where(~own), now.where(own).count(), 0
    parts = [now.where(F.col("block") > wanted.groups[-1].blocks[1])]
    for group, earlier in zip(wanted.groups, [None, *wanted.groups], strict=False):
        if group.before is not None:
            before = _positions(spark, table, group.before)
            after = earlier.blocks[1] if earlier is not None else 0
            parts.append(before.where(F.col("block") > after))
    shall = reduce(DataFrame.unionAll, parts)
    position = ["block", "row"]
    removed = now.join(shall, position, "left_anti").count()
    returned = shall.join(now, position, "left_anti").count()
    return shall, removed, returned


def _positions(spark: SparkSession, table: Table, state: Snapshot) -> DataFrame:
    rows = index_rows.rows(spark, index_build.ensure(spark, table, state, shown=True))
    return rows.select(F.col(BLOCK).alias("block"), F.col(ORDINAL).alias("row"))
