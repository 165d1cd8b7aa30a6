"""Conflicts between reading a table and committing to it: every rule, named.

An operation reads a snapshot, works, perhaps for an hour, and commits on top of whatever the log
has by then. Each rule here holds what the operation relied on against the *present* snapshot, and
raises ``ConflictError`` where it no longer holds. The commit asks again whenever another
transaction got in first, so between the answer and the entry nothing can come.

=================  ==================================================================
Operation          May commit as long as
=================  ==================================================================
every one          no vacuum announced the deletion of a file that it names
those of rows      no row was erased, and no key blocked, in between (erasures.py)
sync               its rows were checked by what people say of the table
adopt              (nothing more: rows are added to whatever is there)
all but these      the table was not dropped, and neither brought back nor begun anew
alter              its plan can still be made, on the present columns; no row came in
                   between, where it goes by the rows
create             the log is empty, or the table dropped
delete-version     the version is there, was not deleted in between, and no pointer names it
point              the version is there; the pointer did not move in between
sign               the version is there, and no row was erased in between
freeze             the label is free, the state readable, and read by the same rules
revert             no row, no schema and no key came in between
change             no schema and no overlay came in between, and no row that it goes by
replay             the same; and no record that it adds was replayed in between
combine            no block was moved in between
drop-history       the same, no version needs what goes, and no key came in between
drop               no version was frozen in between, unless versions are to go as well
undrop             the table is dropped, and no vacuum has begun to delete its data
vacuum-start       no block was moved in between; files named since come off its list
erase-start        the same
erase              the same, no version came or went, and no row that was to be erased;
                   both: a table that was dropped still is, and can still come back
block-keys         no keys were blocked or let in again in between, and the key is the same
vacuum             (nothing more: what is gone is gone)
=================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from singerlake.errors import ConflictError
from singerlake.format.log import Entry, Operation
from singerlake.format.metadata import TransactionSummary
from singerlake.format.names import TableName
from singerlake.format.overlay import Overlay
from singerlake.log import erasures, versions
from singerlake.log.table_state import TableState

MOVES_BLOCKS = frozenset({Operation.COMBINE, Operation.DROP_HISTORY, Operation.ERASE})
"""After these blocks lie elsewhere, or are no more."""

CHANGES_NO_ROW = frozenset(
    {
        Operation.FREEZE,
        Operation.DELETE_VERSION,
        Operation.POINT,
        Operation.SIGN,
        Operation.ALTER,
        Operation.VACUUM_START,
        Operation.VACUUM,
        Operation.COMBINE,
        Operation.DROP_HISTORY,
        Operation.ERASE_START,
        Operation.BLOCK_KEYS,
    }
)
"""After these the present state has the same rows. An operation of a later release is not here."""


def check_no_pending_delete(present: TableState, entry: Entry) -> None:
    """Refuse to name a file that a vacuum is about to delete.

    A file that nobody has named yet, a vacuum may have taken for a dead writer's leftover. It
    says so in the log before it deletes. So a writer that was held up between publishing
    and committing, for however long, finds the number it wanted taken, and that entry.

    Raises:
        ConflictError: The entry names such a file.
    """
    for file in sorted({path for block in (*entry.blocks, *entry.moved) for path in block.paths}):
        if (by := present.pending_deletes.get(file)) is not None:
            raise ConflictError(
                f"a vacuum (transaction {by} of {present.table}) took {file} for an orphan file "
                "while its writer was stalled: nothing was committed; run it again"
            )


_NEEDS_NO_TABLE = frozenset(
    {
        Operation.SYNC,
        Operation.ADOPT,
        Operation.CREATE,
        Operation.UNDROP,
        Operation.VACUUM_START,
        Operation.VACUUM,
        Operation.BLOCK_KEYS,
    }
)


def check_same_table(present: TableState, planned: TableState, entry: Entry) -> None:
    """Refuse to do something to a table that was dropped since, be there another or not.

    Args:
        planned: As it was when the commit began.

    Raises:
        ConflictError: It was.
    """
    if planned.dropped_at and entry.operation in (Operation.ERASE_START, Operation.ERASE):
        erasures.check_still_dropped(present, planned)
    elif entry.operation not in _NEEDS_NO_TABLE:
        check_not_dropped(present, planned)


def check_not_dropped(present: TableState, planned: TableState) -> None:
    """Refuse to go on with a table that was dropped since, be there another or not.

    Args:
        planned: As it was when the operation began.

    Raises:
        ConflictError: It was.
    """
    if present.dropped_at:
        raise ConflictError(
            f"{present.table} was dropped in the meantime (transaction {present.dropped_at}): "
            "nothing was changed"
        )
    if present.drops != planned.drops:
        since = present.drops[-1]
        became = "brought back" if since.undone else "begun anew"
        raise ConflictError(
            f"{present.table} was dropped in the meantime (transaction {since.transaction}) and "
            f"{became} (transaction {since.ended}): nothing was changed; run it again"
        )


def check_restorable(present: TableState) -> None:
    """Refuse to bring back a table that is there, or whose data is gone.

    Raises:
        ConflictError: Somebody was sooner, or a vacuum has begun to delete the data.
    """
    if not present.dropped_at:
        raise ConflictError(
            f"{present.table} exists again: another process restored it, or created another table "
            "of that name; nothing was changed"
        )
    if present.restorable is None:
        raise ConflictError(
            f"a vacuum has begun to delete the data of {present.table}: it cannot be restored"
        )


def check_no_versions(present: TableState) -> None:
    """Refuse to drop a table of which somebody has just frozen a version.

    Raises:
        ConflictError: It has one.
    """
    if present.frozen:
        raise ConflictError(
            f"version {present.frozen[-1].number} of {present.table} was frozen in the meantime: "
            "nothing was dropped; check it, and drop the table with its versions "
            "(--with-versions)"
        )


def made_meanwhile(table: TableName) -> ConflictError:
    """Return the error of a table that is to be made, and that somebody else has just made."""
    return ConflictError(
        f"another process created {table} in the meantime: it was left unchanged, and nothing was "
        "done; to write into that table, run it again"
    )


def check_empty(present: TableState) -> None:
    """Refuse to make a table that is there.

    Raises:
        ConflictError: Its log has an entry, and it was not dropped.
    """
    if present.number and not present.dropped_at:
        raise made_meanwhile(present.table)


def check_rows_unchanged(present: TableState, planned: int) -> None:
    """Refuse to revert or to alter a table whose rows are no longer those which the plan read.

    Args:
        planned: Its last transaction when the plan was made.

    Raises:
        ConflictError: Rows or a schema were committed since.
    """
    for later in present.transactions[planned:]:
        if changes_rows(later):
            raise ConflictError(
                f"a {later.operation} (transaction {later.number}) changed {present.table} in the "
                "meantime: nothing was done; run it again"
            )


def check_transaction(present: TableState, if_transaction: int | None) -> None:
    """Refuse to change a table that is no longer at the transaction it was asked to be at.

    Raises:
        ConflictError: It is at another.
    """
    if if_transaction is not None and present.number < if_transaction:
        raise ConflictError(
            f"{present.table} is at transaction {present.number}, and has no {if_transaction} yet: "
            "nothing was changed; check the table, and repeat the change with its current number"
        )
    if if_transaction is not None and present.number != if_transaction:
        raise ConflictError(
            f"{present.table} is at transaction {present.number}, not {if_transaction} any more: "
            "nothing was changed; check the transactions in between, and repeat the change"
        )


def check_columns_unchanged(present: TableState, planned: TableState) -> None:
    """Refuse to change rows whose columns are others than when the plan was made.

    Raises:
        ConflictError: The schema, or what people say of the columns, is another.
    """
    if (present.schema_hash, present.overlay) != (planned.schema_hash, planned.overlay):
        raise ConflictError(
            f"the columns of {present.table} were changed in the meantime: nothing was changed; "
            "run it again"
        )


def rows_changed_since(present: TableState, planned: int) -> bool:
    """Tell whether rows were committed since a plan was made.

    Args:
        planned: Its last transaction when the plan was made.
    """
    return any(map(changes_rows, present.transactions[planned:]))


def changes_rows(transaction: TransactionSummary) -> bool:
    """Tell whether the table may have other rows after a transaction, or has them elsewhere."""
    if transaction.operation == Operation.ALTER:
        return transaction.blocks > 0  # for a new key it may write all rows again
    return transaction.operation not in CHANGES_NO_ROW


def check_checked_by(present: TableState, overlay: Overlay) -> None:
    """Refuse rows that were checked by other words than those now said of the table.

    Args:
        overlay: What people said of it when the rows were checked.

    Raises:
        ConflictError: It was altered, or dropped, since.
    """
    # Of a table that is dropped the words are gone too: what comes begins another.
    said = Overlay() if present.dropped_at else present.overlay
    if said == overlay or (said.only_texts and overlay.only_texts):
        return
    done = "dropped" if present.dropped_at else "altered"
    raise ConflictError(
        f"{present.table} was {done} while rows for it arrived, which were not checked against its "
        "new definition: they were not committed; run it again"
    )


def check_key_unchanged(present: TableState, planned: TableState) -> None:
    """Refuse to go by a key that the table no longer has.

    Args:
        planned: As it was when the plan was made.

    Raises:
        ConflictError: An alter gave it another, or another way to read it.
    """
    if present.overlay == planned.overlay:
        return
    if present.overlay.only_texts and planned.overlay.only_texts:
        return
    raise ConflictError(
        f"{present.table} was altered in the meantime: nothing was changed; run it again"
    )


def check_blocks_unmoved(present: TableState, planned: int) -> None:
    """Refuse to move blocks that another vacuum has moved, or that went or came as a whole.

    Args:
        planned: Its last transaction when the plan was made.

    Raises:
        ConflictError: A vacuum has moved blocks since, or the table was dropped or brought back.
    """
    for later in present.transactions[planned:]:
        if later.operation in MOVES_BLOCKS | {Operation.DROP, Operation.UNDROP}:
            by = "another vacuum" if later.operation in MOVES_BLOCKS else "another process"
            raise ConflictError(
                f"{by} (transaction {later.number}, {later.operation}) changed {present.table} in "
                "the meantime: nothing was changed; run it again"
            )


def check_versions_kept(present: TableState, protected: AbstractSet[int], floor: int) -> None:
    """Refuse to drop history that a version frozen meanwhile needs.

    Args:
        protected: Last blocks of the states that the plan keeps.

    Raises:
        ConflictError: Such a version was frozen since, even if it was deleted again.
    """
    floor_block = present.summary(floor).last_block
    for version in versions.protecting(present, floor):
        last_block = present.summary(version.transaction).last_block
        if last_block < floor_block and last_block not in protected:
            raise ConflictError(
                f"version {version.number} of {present.table} was frozen in the meantime and needs "
                "history that was about to expire: nothing was changed; run it again"
            )


def taken_label(present: TableState, label: str | None) -> str:
    """Say which version has a label already; empty where it is free."""
    for version in present.frozen:
        if label is not None and version.label == label:
            return (
                f"version {version.number} of {present.table} has the label {label!r} already: "
                "choose another"
            )
    return ""


def check_version_there(present: TableState, number: int) -> None:
    """Refuse to delete a version that is no more.

    Raises:
        ConflictError: Somebody else deleted it since.
    """
    if number not in {version.number for version in present.frozen}:
        raise ConflictError(
            f"version {number} of {present.table} was deleted by another process in the meantime: "
            f"nothing was changed; the reason is in: singerlake versions {present.table}"
        )


def check_not_pointed(present: TableState, number: int) -> None:
    """Refuse to delete a version that a pointer names.

    Raises:
        ConflictError: One does.
    """
    pointers = versions.pointers(present)
    if named := [name for name, (one, _) in pointers.items() if one.number == number]:
        listed = ", ".join(f"@{name}" for name in named)
        raise ConflictError(
            f"version {number} of {present.table} is named by {listed}: move the pointer first, "
            f"with: singerlake point {present.table} {named[0]} VERSION"
        )


def check_pointer_unmoved(present: TableState, planned: TableState, name: str) -> None:
    """Refuse to move a pointer that moved in the meantime.

    Raises:
        ConflictError: It did.
    """
    before, now = (versions.pointers(state).get(name) for state in (planned, present))
    if (before and before[1]) != (now and now[1]):
        raise ConflictError(
            f"another process moved the pointer @{name} of {present.table} in the meantime: "
            f"nothing was changed; see where it is with: singerlake point {present.table}"
        )


def check_label_free(present: TableState, label: str | None) -> None:
    """Refuse to give a label a second time.

    Raises:
        ConflictError: A version was frozen with it since.
    """
    if taken := taken_label(present, label):
        raise ConflictError(taken)


def check_readable(present: TableState, transaction: int) -> None:
    """Refuse to freeze a state that a vacuum has given up while it was read.

    Raises:
        ConflictError: Its history was dropped.
    """
    if not present.readable(transaction):
        raise ConflictError(
            f"the history that transaction {transaction} of {present.table} needs has expired "
            "while it was read: nothing was frozen"
        )
