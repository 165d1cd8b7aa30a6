"""Positions of a projection: the states that it shows, compared with the tables as they are."""

from __future__ import annotations

from singerlake.format import names
from singerlake.format.names import TableName
from singerlake.format.sql_tables import find, reference
from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake.publish.projection import DECIDE_ROWS, Projection
from singerlake.publish.published import Position, SourceState
from singerlake.quantities import count


def state_of(snapshot: TableState, version: int | None = None) -> SourceState:
    """Note the state that is read, for a position.

    Args:
        version: The version that was asked for; None for the head.
    """
    return SourceState(
        str(snapshot.table), snapshot.number, snapshot.commit, version, snapshot.erased_at
    )


def table_of(state: SourceState) -> TableName:
    """The table that a position speaks of."""
    tap, _, stream = state.table.partition(".")
    return TableName(tap, stream)


def is_same_table(state: SourceState, head: TableState) -> bool:
    """Tell whether a table's log still holds the transaction whose state was read.

    It does not where the table was dropped since and begun anew, or where the lake is another.
    """
    if not head.first <= state.transaction <= head.number:
        return False
    return head.summary(state.transaction).commit == state.commit


def erased_since(state: SourceState, head: TableState) -> str | None:
    """Say that rows of a table were erased since a state of it was read; None where none were.

    What was read may have had them, of whatever transaction it was, and no later block tells.
    """
    if state.erased == head.erased_at:
        return None
    return f"rows of {head.table} were erased since it was read"


def behind(state: SourceState, head: TableState) -> str | None:
    """Say how a table has moved on from the state that was read.

    Args:
        head: The table as it is, or the version that is asked for.

    Returns:
        In words; None where its rows are the same, as after a freeze or a vacuum.
    """
    if not is_same_table(state, head):
        return f"{head.table} is not the same table that was read"
    if (erased := erased_since(state, head)) is not None:
        return erased
    then = head.filed(state.transaction).by_rules(head.rules)
    if then.last_block == head.last_block and then.reads_like(head):
        return None
    return f"it is {count(head.number - state.transaction, 'transaction')} behind {head.table}"


def due(
    lake: Lake, position: Position | None, projection: Projection, *, rows_only: bool = False
) -> str | None:
    """Say why something is to be done anew; None where it is up to date.

    Args:
        position: How far it is; None where it was never done.
        rows_only: Whether it does not matter how the rows lie: a staging table has no order.

    Returns:
        A clause that follows "because".

    Raises:
        NotFoundError: A table that it reads is not there any more.
    """
    if position is None:
        return "it is new"
    changed = projection.changed_since(position.definition)
    if rows_only:
        changed = tuple(one for one in changed if one in DECIDE_ROWS)
    if changed:
        return f"the definition changed: {', '.join(changed)}"
    for state in position.sources:
        version = None if state.version is None else str(state.version)
        now = lake.table(table_of(state)).snapshot_at(version)
        if (words := behind(state, now)) is not None:
            return words
    return _moved_pointer(lake, position, projection)


def _moved_pointer(lake: Lake, position: Position, projection: Projection) -> str | None:
    """Say which pointer names another version than the one that was read; None if none does."""
    for text in projection.sources:
        named = reference(text)
        pointer = named.version or named.parts[-1]
        if not names.is_pointer(pointer):
            continue
        table, _ = find(named.parts, lake.tables())
        read = {one.version for one in position.sources if one.table == str(table)}
        now, _ = lake.table(table).snapshot().named(pointer)
        # What is published of a staging table reads that; its own position has the pointer's table.
        if read and now is not None and now.number not in read:
            return f"{table}{pointer} now points to version {now.number}"
    return None
