"""Which rows differ between two states, by position: from keys, positions and digests alone.

A row that lies where it lay is the same row. One that was written again with the same bytes, under
the same schema, is so as well. What is left are pairs of positions, and only these rows need to be
read. Where nothing but new blocks came between the states, the keys in these are enough, and the
earlier state's index: the work grows with what changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.format.log import joined
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.maintenance.difference import Comparison, Matching, State
from singerlake.records.rows.row_columns import BLOCK, DELETED, DIGEST, ORDINAL, alias, aliases
from singerlake.records.state import activations
from singerlake.records.state.shape import Shape
from singerlake.snapshot import building
from singerlake.spark.state import fold, frames, from_blocks, index_rows
from singerlake.spark.state.requested_rows import index_if_kept
from singerlake.transactions.snapshot import Snapshot

BEFORE = ("before_block", "before_row")
AFTER = ("after_block", "after_row")
"""Positions in the first state and in the second; null where the row is not in it."""
MOST_RANGES = 200
_SCHEMA = "schema"
_KEPT = (BLOCK, ORDINAL, DIGEST)


@dataclass(frozen=True)
class Differing:
    """The rows that may differ.

    Attributes:
        pairs: :data:`BEFORE` and :data:`AFTER` of each; at least one of the two is there.
        rows: Positions of all rows of one of the states.
        in_first: Whether that is the first.
        known: How many these are, where it need not be counted.
    """

    pairs: DataFrame
    rows: DataFrame
    in_first: bool
    known: int | None

    def count(self) -> int:
        """Count the rows of that state."""
        return self.rows.count() if self.known is None else self.known


@dataclass(frozen=True)
class _Keys:
    """A state's keys, positions and digests.

    Attributes:
        frame: Columns ``c0``, ``c1``, … of the key, and those of ``_KEPT``.
        known: How many rows there are, where it is known.
    """

    frame: DataFrame
    known: int | None


def differing(spark: SparkSession, table: Table, wanted: Comparison) -> Differing:
    """Find the rows that may differ between two states.

    Args:
        spark: The session.
        table: The table.
        wanted: The states.

    Raises:
        DamagedError: A block that is needed cannot be read, or a key does not fit.
    """
    return _Search(spark, table, wanted).differing()


class _Search:
    def __init__(self, spark: SparkSession, table: Table, wanted: Comparison) -> None:
        self._spark = spark
        self._table = table
        self._wanted = wanted
        self._key = wanted.after.key
        self._names = aliases(self._key)
        self._forth = wanted.before.number <= wanted.after.number
        states = (wanted.before, wanted.after)
        self._earlier, self._later = states if self._forth else states[::-1]

    def differing(self) -> Differing:
        later, earlier = self._later.snapshot, self._earlier.snapshot
        since = later.blocks_after(earlier.number)
        same_key = later.key_reading == earlier.key_reading
        if same_key and not any(block.activations for block in since):
            old = self._keys(self._earlier)
            pairs = self._since(old.frame)
            if not self._forth:
                pairs = pairs.toDF(*AFTER, *BEFORE).select(*BEFORE, *AFTER)
            return Differing(pairs, old.frame, self._forth, old.known)
        old = self._keys(self._wanted.before)
        pairs = self._between(old.frame, self._keys(self._wanted.after).frame)
        return Differing(pairs, old.frame, in_first=True, known=old.known)

    def _keys(self, state: State) -> _Keys:
        """The keys of a state's rows, by the second state's key."""
        snapshot = state.snapshot
        if state is not self._wanted.after and self._wanted.matching is Matching.LATER_KEY:
            return _Keys(self._read_keys(snapshot, self._key, by=self._wanted.after.snapshot), None)
        index = index_if_kept(self._spark, self._table, snapshot)
        if index is None:
            # Those that tell this state's rows apart; the others' names are not asked for.
            own = self._key or state.key
            return _Keys(self._read_keys(snapshot, own, by=snapshot), None)
        places = {name: number for number, name in enumerate(index.shape.names)}
        own_key = [
            F.col(alias(places[name])).alias(alias(number))
            for number, (name, _) in enumerate(self._key)
        ]
        rows = index_rows.rows(self._spark, index, digests=True)
        return _Keys(rows.select(*own_key, *_KEPT), index.marker.rows)

    def _read_keys(self, snapshot: Snapshot, key: Columns, by: Snapshot) -> DataFrame:
        """The keys of a state that is read from its blocks."""
        shape = _key_shape(key, snapshot)
        rows = from_blocks.rows(
            self._spark, self._table, snapshot, digests=True, shape=shape, reads_as=by
        )
        return rows.select(*self._names, *_KEPT)

    def _since(self, old: DataFrame) -> DataFrame:
        """The pairs where only blocks without activations came after the earlier state."""
        earlier, later = self._earlier.snapshot, self._later.snapshot
        since = later.blocks_after(earlier.number)
        shape = _key_shape(self._key, later)
        came = frames.read_blocks(self._spark, self._table, later, since, shape, digests=True)
        # A block that a vacuum put together may hold earlier rows too.
        came = came.where(F.col(BLOCK) > earlier.last_block)
        new = fold.newest(came, shape, sum(block.bytes for block in since))
        new = new.select(*self._names, *_KEPT, DELETED)
        if not self._key:
            # No row is ever replaced, and none went.
            nothing = [F.lit(None).cast(kind) for kind in ("bigint", "int")]
            return new.where(~F.col(DELETED)).select(*nothing, BLOCK, ORDINAL).toDF(*BEFORE, *AFTER)
        if sum(block.rows for block in since) <= building.MOST_ROWS:
            keys = new.select(*(F.col(name).alias(f"now_{name}") for name in self._names))
            # A row that came since is in no row's place, so a key with a null has no row before.
            same = _all(F.col(name) == F.col(f"now_{name}") for name in self._names)
            old = old.join(F.broadcast(keys), same, "left_semi")
        same_key = _all(F.col(f"old.{name}") == F.col(f"new.{name}") for name in self._names)
        pairs = new.alias("new").join(old.alias("old"), same_key, "left")
        gone = F.col(f"new.{DELETED}")
        there = F.col(f"old.{BLOCK}").isNotNull()
        pairs = pairs.where((gone & there) | (~gone & ~self._same_record("old", "new")))
        return pairs.select(
            F.col(f"old.{BLOCK}"),
            F.col(f"old.{ORDINAL}"),
            F.when(~gone, F.col(f"new.{BLOCK}")),
            F.when(~gone, F.col(f"new.{ORDINAL}")),
        ).toDF(*BEFORE, *AFTER)

    def _between(self, old: DataFrame, new: DataFrame) -> DataFrame:
        """The pairs of any two states."""
        if not self._key:
            return self._unlike(old, new)
        same_key = self._same_key()
        pairs = old.alias("old").join(new.alias("new"), same_key, "full_outer")
        same_place = _same(("old", BLOCK), ("new", BLOCK)) & _same(
            ("old", ORDINAL), ("new", ORDINAL)
        )
        pairs = pairs.where(~(same_place | self._same_record("old", "new")))
        return pairs.select(*_positions("old"), *_positions("new")).toDF(*BEFORE, *AFTER)

    def _unlike(self, old: DataFrame, new: DataFrame) -> DataFrame:
        """The pairs of states without a key: none of them has both positions.

        Of rows that lie elsewhere, as many as there are on both sides of one record are the same.
        """
        place = (BLOCK, ORDINAL)
        schema = self._schema_number(F.col(BLOCK))
        same = Window.partitionBy(DIGEST, _SCHEMA).orderBy(*place)
        left, right = (
            one.join(other.select(*place), list(place), "left_anti")
            .withColumn(_SCHEMA, F.lit(None).cast("int") if schema is None else schema)
            .withColumn("which", F.row_number().over(same))
            for one, other in ((old, new), (new, old))
        )
        # Records whose schema nobody can tell are not the same: null equals nothing.
        alike = _all(
            F.col(f"old.{name}") == F.col(f"new.{name}") for name in (DIGEST, _SCHEMA, "which")
        )
        pairs = left.alias("old").join(right.alias("new"), alike, "full_outer")
        pairs = pairs.where(F.col(f"old.{BLOCK}").isNull() | F.col(f"new.{BLOCK}").isNull())
        return pairs.select(*_positions("old"), *_positions("new")).toDF(*BEFORE, *AFTER)

    def _same_key(self) -> Column:
        """Whether two rows have one key; a row with a null in it has that of its place alone."""
        places = (fold.own_place(self._names, f"{side}.") for side in ("old", "new"))
        same = _all(_same(("old", name), ("new", name)) for name in self._names)
        return same & reduce(Column.eqNullSafe, places)

    def _same_record(self, one: str, other: str) -> Column:
        """Whether two rows are the same bytes, and read alike; false where one is missing."""
        schemas = [self._schema_number(F.col(f"{side}.{BLOCK}")) for side in (one, other)]
        if schemas[0] is None or schemas[1] is None:
            return F.lit(False)
        same = (F.col(f"{one}.{DIGEST}") == F.col(f"{other}.{DIGEST}")) & (schemas[0] == schemas[1])
        return F.coalesce(same, F.lit(False))

    def _schema_number(self, version: Column) -> Column | None:
        """How rows of a version are read; None where there are too many ways.

        That is the schema that they were written under, and which defaults they show of columns
        that people added.
        """
        bounds = self._wanted.after.snapshot.overlay.default_starts
        ranges: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for block in self._later.snapshot.blocks:
            first, last = block.first_version or block.number, block.number
            inner = [bound for bound in bounds if first < bound <= last]
            for start, after in pairwise([first, *inner, last + 1]):
                way = (block.schema_hash, bisect_right(bounds, start))
                ranges.setdefault(way, []).append((start, after - 1))
        merged = [joined(one) for one in ranges.values()]
        if len(merged) == 1:
            return F.lit(0)
        if sum(map(len, merged)) > MOST_RANGES:
            return None
        tests = (
            (_any(version.between(first, last) for first, last in one), number)
            for number, one in enumerate(merged)
        )
        number_of = F.lit(None).cast("int")
        for test, number in tests:
            number_of = F.when(test, F.lit(number)).otherwise(number_of)
        return number_of


def _key_shape(key: Columns, snapshot: Snapshot) -> Shape:
    """The shape of rows of which only a key is read."""
    return Shape(key, tuple(range(len(key))), activations.survival(snapshot.blocks))


def _positions(side: str) -> list[Column]:
    return [F.col(f"{side}.{BLOCK}"), F.col(f"{side}.{ORDINAL}")]


def _same(one: tuple[str, str], other: tuple[str, str]) -> Column:
    return F.col(".".join(one)).eqNullSafe(F.col(".".join(other)))


def _all(tests: Iterable[Column]) -> Column:
    return reduce(lambda one, other: one & other, tests)


def _any(tests: Iterable[Column]) -> Column:
    return reduce(lambda one, other: one | other, tests)
