"""Changes by the rules of today in a table that release 0.1 read, before anything is changed.

Earlier rules compared keys as their columns had rounded them, and took rows with a null in their
key for one row. A version frozen by them keeps its answers; the head, and all that is done to the
table, goes by the rules of today. Nothing is written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from singerlake.engine.base import Engine
from singerlake.engine.work import Work
from singerlake.format.log import Operation
from singerlake.format.metadata import TransactionSummary
from singerlake.format.names import TableName
from singerlake.format.types import EXACT_KEYS, rounds
from singerlake.lake import Table
from singerlake.ops.verify.whole_table import check_size
from singerlake.rows.blocks.misfits import ColumnMisfits
from singerlake.snapshot.common_rows import differing_rows
from singerlake.snapshot.content import state_misfits

BEFORE = 1
"""The rules of types that release 0.1 read a table's head by; no release had those between."""
_FOR_GOOD = (Operation.ERASE, Operation.DROP_HISTORY)


@dataclass(frozen=True)
class TableUpgrade:
    """The changes that the rules of today make to a table.

    Attributes:
        rows: How many rows its head has.
        appear: How many of them the earlier rules did not show.
        vanish: How many rows the earlier rules showed, and it has no more.
        types: The columns that have another type by now: name, type before, type now.
        rounded: The key's columns that would have to round some of its values: no change, revert
            or erasure finds a row by them until they have another type.
        versions: The versions that stay as the earlier rules have them, by number.
        for_good: Erasures and dropped histories of a table with a key that its columns can round.
            One that an earlier release made took several keys for one, and cannot be undone.
    """

    table: TableName
    rows: int
    appear: int
    vanish: int
    types: list[tuple[str, str, str]]
    rounded: list[ColumnMisfits]
    versions: list[int]
    for_good: list[TransactionSummary]

    def __bool__(self) -> bool:
        return bool(self.appear or self.vanish or self.types or self.rounded or self.for_good)


def upgrade_of(engine: Engine[Any], table: Table, limit: Work | None = None) -> TableUpgrade:
    """Find what the rules of today change in a table.

    Args:
        limit: The most that there may be to do.

    Raises:
        TooLargeError: There is more to do than ``limit``; nothing large was read.
        SingerlakeError: The table cannot be read.
    """
    with table.lease() as lease:
        head = lease.snapshot.earliest_equal()
        check_size(limit, head, [head, head])
        before = head.by_rules(BEFORE)
        rows, appear, vanish = differing_rows(engine, table, before, head)
        types = {name: str(type_) for name, type_ in before.columns}
        key = {head.columns[index][0]: head.columns[index][1] for index in head.key}
        rounding = any(map(rounds, key.values()))
        found = state_misfits(engine, table, head) if rounding else []
        return TableUpgrade(
            table=table.name,
            rows=rows,
            appear=appear,
            vanish=vanish,
            types=[
                (name, types.get(name, "no column"), str(type_))
                for name, type_ in head.columns
                if types.get(name) != str(type_)
            ],
            rounded=[one for one in found if one.column in key],
            versions=[one.number for one in lease.snapshot.frozen if one.types < EXACT_KEYS],
            for_good=[
                one
                for one in lease.snapshot.own_transactions
                if one.operation in _FOR_GOOD and rounding
            ],
        )
