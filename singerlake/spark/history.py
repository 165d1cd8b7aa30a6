"""The rows job: a row as it was, and all the versions of it that the lake still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.errors import NotFoundError, UsageError
from singerlake.lake import Table
from singerlake.spark import frames
from singerlake.spark.answer import Answer
from singerlake.spark.failures import plain_errors
from singerlake.spark.fold import Survival
from singerlake.spark.frames import BLOCK, GONE, MISFIT, ORDINAL, VERSION, Shape, shape_of
from singerlake.transactions.snapshot import Snapshot


@dataclass(frozen=True)
class RowVersion:
    """A row as one block has it.

    Attributes:
        row_version: The block's number.
        transaction: The transaction that added it.
        time: When that was committed.
        operation: ``insert``, ``update`` or ``delete``, by what was there before it; or
            ``remove`` where an ACTIVATE_VERSION took it away.
        values: The columns; of a deletion, what the deletion said; of a removal, none.
        misfits: By column, what is said of a value that does not fit it, and reads as null.
    """

    row_version: int
    transaction: int
    time: str
    operation: str
    values: dict[str, Any]
    misfits: dict[str, str] = field(default_factory=dict)


def row_history(
    spark: SparkSession, table: Table, snapshot: Snapshot, key: Mapping[str, str]
) -> list[RowVersion]:
    """All versions of one row, oldest first.

    Args:
        spark: The session.
        table: The table; it must have key properties.
        snapshot: The table as of some transaction.
        key: The value of each key property, as text; it is turned into the column's type.

    Raises:
        UsageError: The table has no key, or the names are not its key's.
        NotFoundError: No such row was ever there.
    """
    shape = shape_of(snapshot)
    _check_key(snapshot, shape, key)
    # Rows that an activation removed are part of a row's history: nothing is left out.
    everything = replace(shape, survival=Survival())
    with plain_errors():
        found = frames.read_blocks(spark, table, snapshot, snapshot.blocks, everything)
        for place in shape.keys:
            name, type_ = shape.columns[place]
            wanted = F.lit(key[name]).try_cast(frames.spark_type(type_))
            found = found.where(F.col(f"c{place}").eqNullSafe(wanted))
        rows = list(Answer(found.orderBy(BLOCK, ORDINAL), []).rows())
    if not rows:
        words = ", ".join(f"{name}={value}" for name, value in key.items())
        raise NotFoundError(f"{snapshot.table} never had a row {words}")
    return _versions(snapshot, shape, found.columns, rows)


def _check_key(snapshot: Snapshot, shape: Shape, key: Mapping[str, str]) -> None:
    names = [shape.columns[place][0] for place in shape.keys]
    if not names:
        raise UsageError(
            f"{snapshot.table} has no key properties, so its rows have no history: each is its own"
        )
    if set(key) != set(names):
        raise UsageError(
            f"the key of {snapshot.table} is {', '.join(names)}: say "
            + " ".join(f"--key {name}=…" for name in names)
        )


def _versions(
    snapshot: Snapshot, shape: Shape, names: list[str], rows: list[tuple[Any, ...]]
) -> list[RowVersion]:
    places = {name: place for place, name in enumerate(names)}
    activations = [
        (block.number, row, version)
        for block in snapshot.blocks
        for row, version in block.activations
    ]
    found: list[RowVersion] = []
    there = False
    for number, row in enumerate(rows):
        position = (row[places[BLOCK]], row[places[ORDINAL]])
        values = dict(zip(shape.names, row, strict=False))
        gone = row[places[GONE]]
        operation = "delete" if gone else "update" if there else "insert"
        said = row[places[MISFIT]] or {}
        misfits = {shape.names[place]: text for place, text in sorted(said.items())}
        version = _version(snapshot, position[0], operation, values)
        found.append(replace(version, misfits=misfits))
        there = not gone
        if number + 1 < len(rows):
            following = rows[number + 1]
            until = (following[places[BLOCK]], following[places[ORDINAL]])
        else:
            until = (snapshot.last_block + 1, 0)
        removed = next(
            (
                block
                for block, before, version in activations
                # ``before`` rows come before it: it lies between row before-1 and row before.
                if position < (block, before) <= until and version != row[places[VERSION]]
            ),
            None,
        )
        if there and removed is not None:
            found.append(_version(snapshot, removed, "remove", {}))
            there = False
    return found


def _version(snapshot: Snapshot, block: int, operation: str, values: dict[str, Any]) -> RowVersion:
    transaction = snapshot.transaction_of_block(block)
    time = snapshot.summary(transaction).time
    return RowVersion(block, transaction, time, operation, values)
