"""Altering: what a person says of a table's columns, laid over what the tap says of them.

Only the log is written. The lines stay as the tap wrote them, and so does its schema; what
changes is how columns are read from now on, under every schema that the table has or gets.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from singerlake.errors import NotFoundError, UsageError
from singerlake.format.log import ColumnOverlay, Entry, Overlay
from singerlake.format.types import TEXT, Kind, Type, columns_of
from singerlake.storage.base import Store
from singerlake.transactions.commit import commit, current_user, new_entry, new_writer_id
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.writer import update_checkpoint

OPERATION = "alter"
SHOWN = 20
_TO_TEXT = ColumnOverlay("text")


@dataclass(frozen=True)
class Altered:
    """What became of a column.

    Attributes:
        column: Its name.
        before: Its type until now.
        after: Its type from now on.
        transaction: The one that says so; None where nothing was to be done, or only asked.
    """

    column: str
    before: str
    after: str
    transaction: int | None = None

    @property
    def same(self) -> bool:
        """Whether nothing changes."""
        return self.before == self.after


def retype(
    store: Store,
    snapshot: Snapshot,
    column: str,
    *,
    comment: str | None = None,
    dry_run: bool = False,
) -> Altered:
    """Make text of a column, whatever values came or will come in it.

    Args:
        store: The lake's store.
        snapshot: The table's head.
        column: The column's name.
        comment: Why; kept with the transaction.
        dry_run: Only say what would be done.

    Raises:
        NotFoundError: The table has no such column.
        UsageError: The column is of the key and has had several types, or the table has lost
            its log.
        ConflictError: Somebody changed the table too often meanwhile.
    """
    if not snapshot.from_log:
        raise UsageError(
            f"{snapshot.table} has lost its log, in which it would be kept: make it again with: "
            f"singerlake rebuild {snapshot.table}"
        )
    planned = _plan(snapshot, column)
    if planned.same or dry_run:
        return planned

    def build(present: Snapshot, number: int, commit_id: str, time: str) -> Entry:
        _plan(present, column)
        said = {"by": current_user(), **({} if comment is None else {"comment": comment})}
        return new_entry(
            present.table,
            OPERATION,
            number,
            commit_id,
            time,
            writer=new_writer_id(),
            overlay=Overlay({**present.overlay.columns, column: _TO_TEXT}),
            metadata=said,
        )

    after = commit(store, snapshot, build)
    update_checkpoint(store, after)
    return Altered(planned.column, planned.before, planned.after, after.head)


def _plan(snapshot: Snapshot, column: str) -> Altered:
    columns = dict(columns_of(snapshot.schema, snapshot.rules, snapshot.retyped))
    if column not in columns:
        near = difflib.get_close_matches(column, columns, 1)
        listed = ", ".join([*columns][:SHOWN]) + ", …" * (len(columns) > SHOWN)
        raise NotFoundError(
            f"{snapshot.table} has no column {column!r}: "
            + (f"did you mean {near[0]!r}?" if near else f"it has {listed or 'none'}")
        )
    if column in snapshot.schema.key_properties:
        _check_key(snapshot, column)
    return Altered(column, str(columns[column]), str(TEXT))


def _check_key(snapshot: Snapshot, column: str) -> None:
    """Refuse where rows that are one by their key might come apart as texts."""
    found = {
        _of_key(dict(columns_of(schema, snapshot.rules)).get(column))
        for schema in snapshot.schemas.values()
    } - {None}
    if len(found) > 1:
        listed = ", ".join(sorted(map(str, found)))
        raise UsageError(
            f"column {column!r} is of the key of {snapshot.table}, by which rows are told apart, "
            f"and has had several types ({listed}): as text, one row might become two; give it, "
            "in the tap's schema, a type that all its values fit, and sync again"
        )


def _of_key(type_: Type | None) -> str | None:
    """A type's name, the same for types whose values are the same texts."""
    if type_ is None:
        return None
    return "int64 or decimal" if type_.kind in (Kind.INTEGER, Kind.DECIMAL) else str(type_)
