"""Each rule of ``conflicts.py``, for each operation that may come in between."""

from __future__ import annotations

import pytest
from msgspec import structs

from singerlake.errors import ConflictError
from singerlake.format.log import Block, FrozenVersion, Operation
from singerlake.format.metadata import TransactionSummary
from singerlake.format.names import TableName
from singerlake.format.version_notes import Deleted
from singerlake.log import conflicts
from singerlake.log.commit import draft_entry
from singerlake.log.table_state import TableState

TABLE = TableName("tap", "s")
LATER = "of-a-later-release"
EVERY = [*map(str, Operation), LATER]


def snapshot(*operations: str) -> TableState:
    """A table with one block a transaction."""
    return TableState(
        TABLE,
        transactions=[
            TransactionSummary(
                number=n,
                commit=f"c{n}",
                operation=operation,
                time="t",
                schema_hash="h",
                last_block=n,
            )
            for n, operation in enumerate(operations, start=1)
        ],
    )


def version(transaction: int, label: str | None = None, types: int = 2) -> FrozenVersion:
    return FrozenVersion(
        number=1,
        transaction=transaction,
        schema_hash="h",
        rows=1,
        fingerprint="x",
        label=label,
        types=types,
    )


def refuses(rule: object, *args: object) -> bool:
    try:
        rule(*args)  # type: ignore[operator]
    except ConflictError:
        return True
    return False


@pytest.mark.parametrize("operation", EVERY)
def test_what_stops_a_revert_or_a_vacuum(operation: str) -> None:
    present = snapshot("sync", operation)
    as_a_whole = {"drop", "undrop"}
    changes_rows = operation in {
        *{"sync", "create", "revert", "change", "replay", "adopt", "erase", LATER},
        *as_a_whole,
    }
    assert refuses(conflicts.check_rows_unchanged, present, 1) is changes_rows
    assert not refuses(conflicts.check_rows_unchanged, present, 2), "it was there when planned"
    moves = operation in {"combine", "drop-history", "erase", *as_a_whole}
    assert refuses(conflicts.check_blocks_unmoved, present, 1) is moves
    assert not refuses(conflicts.check_blocks_unmoved, present, 2)
    assert refuses(conflicts.check_empty, present)
    assert not refuses(conflicts.check_empty, snapshot())


def test_a_file_about_to_be_deleted_is_not_named_again() -> None:
    present = TableState(TABLE, pending_deletes={"h/gone": 3})
    for member in ("blocks", "moved"):
        for file in ("h/gone", "h/there"):
            named = [Block(1, file, 0, 1, 1, 1)]
            entry = draft_entry(TABLE, Operation.SYNC, **{member: named})
            assert refuses(conflicts.check_no_pending_delete, present, entry) is (file == "h/gone")


def test_a_version_frozen_meanwhile_keeps_its_history() -> None:
    present = snapshot("sync", "sync", "sync", "freeze")
    for transaction, lost in ((1, True), (2, False), (3, False)):
        frozen = TableState(TABLE, present.transactions, frozen=[version(transaction)])
        assert refuses(conflicts.check_versions_kept, frozen, {2}, 3) is lost
        for by, still in ((3, False), (4, lost)):  # deleted before the new floor, and after it
            gone = structs.replace(version(transaction), deleted=Deleted(by, "", "wrong"))
            deleted = TableState(TABLE, present.transactions, deleted_versions=[gone])
            assert refuses(conflicts.check_versions_kept, deleted, {2}, 3) is still


def test_freeze_needs_its_label_and_its_state() -> None:
    transactions = snapshot("sync", "sync", "drop-history").transactions
    present = TableState(TABLE, transactions, frozen=[version(2, "monday")], floor=2)
    assert refuses(conflicts.check_label_free, present, "monday")
    assert not refuses(conflicts.check_label_free, present, "tuesday")
    assert not refuses(conflicts.check_label_free, present, None)
    assert refuses(conflicts.check_readable, present, 1)
    assert not refuses(conflicts.check_readable, present, 2)
