"""The rows job: a row as it was, and all the versions of it that the lake still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.errors import NotFoundError
from singerlake.lake import Table
from singerlake.records.rows.row_columns import BLOCK, DELETED, MISFITS, ORDINAL, VERSION, alias
from singerlake.records.state import activations
from singerlake.records.state.activations import Survival
from singerlake.records.state.row_key import check_key
from singerlake.records.state.shape import Shape, shape_of
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.sql.result import plain_rows
from singerlake.spark.state import frames
from singerlake.transactions.snapshot import Snapshot


@dataclass(frozen=True)
class RowVersion:
    """A row as one block has it.

    Attributes:
        row_version: The block's number, by which versions of a row are told apart; it is not
            the transaction's.
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
    """List all versions of one row, oldest first.

    Args:
        spark: The session.
        table: The table; it must have key properties.
        snapshot: The table as of some transaction.
        key: The value of each key property, as text; it is turned into the column's type.

    Raises:
        UsageError: The table has no key, the names are not its key's, or a value is of no use.
        NotFoundError: No such row was ever there.
    """
    shape = shape_of(snapshot)
    check_key(snapshot, key)
    # Rows that an activation removed are part of a row's history: nothing is left out.
    everything = replace(shape, survival=Survival())
    with plain_errors():
        frame = frames.read_blocks(spark, table, snapshot, snapshot.blocks, everything)
        for index in shape.keys:
            name, type_ = shape.columns[index]
            wanted = F.lit(key[name]).try_cast(frames.spark_type(type_))
            frame = frame.where(F.col(alias(index)).eqNullSafe(wanted))
        names = frame.columns
        rows = [
            dict(zip(names, row, strict=True)) for row in plain_rows(frame.orderBy(BLOCK, ORDINAL))
        ]
    if not rows:
        words = ", ".join(f"{name}={value}" for name, value in key.items())
        raise NotFoundError(f"{snapshot.table} never had a row {words}")
    return _versions(snapshot, shape, rows)


def _versions(snapshot: Snapshot, shape: Shape, rows: list[dict[str, Any]]) -> list[RowVersion]:
    every_activation = activations.all_of(snapshot.blocks)
    positions = [(row[BLOCK], row[ORDINAL]) for row in rows]
    versions: list[RowVersion] = []
    present = False
    for row, position, until in zip(
        rows, positions, [*positions[1:], (snapshot.last_block + 1, 0)], strict=True
    ):
        operation = "delete" if row[DELETED] else "update" if present else "insert"
        present = not row[DELETED]
        values = {name: row[key] for name, key in zip(shape.names, shape.aliases, strict=True)}
        misfits = {shape.names[i]: text for i, text in sorted((row[MISFITS] or {}).items())}
        version = _version(snapshot, position[0], operation, values)
        versions.append(replace(version, misfits=misfits))
        removal = activations.first_removal(every_activation, position, until, row[VERSION])
        if present and removal is not None:
            versions.append(_version(snapshot, removal.block, "remove", {}))
            present = False
    return versions


def _version(snapshot: Snapshot, block: int, operation: str, values: dict[str, Any]) -> RowVersion:
    transaction = snapshot.transaction_of_block(block)
    time = snapshot.summary(transaction).time
    return RowVersion(block, transaction, time, operation, values)
