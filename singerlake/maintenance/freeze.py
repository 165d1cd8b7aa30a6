"""Freezing: a number, and perhaps a label, that mean one transaction for ever.

Plain data and the commit; what Spark has to find out comes in as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from singerlake.errors import MisfitsError, SingerlakeError, UsageError
from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.records.blocks.misfits import ColumnMisfits, ways_out
from singerlake.storage.base import Store
from singerlake.transactions import conflicts
from singerlake.transactions.commit import commit, current_user, draft_entry, new_writer_id
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.writer import update_checkpoint

MAX_LABEL = 100


@dataclass(frozen=True)
class FreezePlan:
    """What will be frozen.

    Attributes:
        at: The table at the transaction to be frozen.
        label: The version's name beside its number.
        comment: Free text.
    """

    at: Snapshot
    label: str | None
    comment: str | None


class _ThereAlreadyError(Exception):
    """Somebody else made a version that is taken instead."""

    def __init__(self, version: FrozenVersion) -> None:
        super().__init__(version.number)
        self.version = version


def no_other(_present: Snapshot) -> None:
    """Take no other version instead of the one that is wanted."""


def version_of_state(
    head: Snapshot,
    number: int | None = None,
    *,
    label: str | None = None,
    allow_violations: bool = False,
) -> FrozenVersion | None:
    """Return the newest version that means a state of a table already; None where none does.

    Args:
        head: The table.
        number: The transaction whose state is meant; the head by default.
        label: The label that the version must have; any or none by default.
        allow_violations: Take a version whose rows break constraints, too.

    Raises:
        NotFoundError: There is no such transaction.
    """
    if not head.frozen:
        return None
    at = head.at(head.number if number is None else number)
    first = at.earliest_equal().number
    for version in reversed(head.frozen):
        if version.only_against_accident or version.types != at.rules:
            continue
        if version.violations and not allow_violations:
            continue
        if label in (None, version.label) and first <= version.transaction <= at.number:
            return version
    return None


def plan(
    snapshot: Snapshot,
    *,
    at: int | None = None,
    label: str | None = None,
    comment: str | None = None,
) -> FreezePlan:
    """Check what can be checked before any data is read.

    Args:
        snapshot: The table's head.
        at: The transaction; the head by default.
        label: A name for the version.
        comment: Free text.

    Raises:
        UsageError: The table has no log, or the label cannot be one or is taken.
        NotFoundError: There is no such transaction.
    """
    if not snapshot.from_log:
        raise UsageError(
            f"{snapshot.table} has lost its log, in which a version would be kept: make it "
            f"again with: singerlake rebuild {snapshot.table}"
        )
    check_label(label)
    if taken := conflicts.taken_label(snapshot, label):
        raise UsageError(taken)
    number = snapshot.number if at is None else at
    snapshot.summary(number)
    return FreezePlan(snapshot.at(number), label, comment)


def commit_version(
    store: Store,
    snapshot: Snapshot,
    wanted: FreezePlan,
    *,
    rows: int,
    fingerprint: str,
    record_fingerprint: str = "",
    lanes: Mapping[str, str] | None = None,
    violations: Sequence[str] = (),
    instead: Callable[[Snapshot], FrozenVersion | None] = no_other,
) -> FrozenVersion:
    """Commit the version.

    Args:
        store: The lake's store.
        snapshot: The table's head, as last seen.
        wanted: The plan.
        rows: Rows in the state.
        fingerprint: Over their values.
        record_fingerprint: Over their records.
        lanes: What the fingerprints are the hashes of, by the same names, encoded.
        violations: The names of the constraints that the rows do not keep.
        instead: Finds, in the table as it is then, a version that will do; nothing is committed
            where there is one.

    Returns:
        The version, with the number it got; or the one that is there instead.

    Raises:
        ConflictError: The label was taken meanwhile, or a vacuum took blocks away.
        StoreError: The store refused.
    """
    transaction, rules = wanted.at.number, wanted.at.rules

    def draft(present: Snapshot) -> Entry:
        if (there := instead(present)) is not None:
            raise _ThereAlreadyError(there)
        conflicts.check_label_free(present, wanted.label)
        conflicts.check_readable(present, transaction)
        version = FrozenVersion(
            number=present.last_version + 1,
            transaction=transaction,
            schema_hash=wanted.at.schema_hash,
            rows=rows,
            fingerprint=fingerprint,
            record_fingerprint=record_fingerprint,
            label=wanted.label,
            comment=wanted.comment,
            by=current_user(),
            types=rules,
            violations=list(violations),
        )
        return draft_entry(
            present.table,
            Operation.FREEZE,
            writer=new_writer_id(),
            version=version,
            lanes=dict(lanes or {}),
        )

    try:
        after = commit(store, snapshot, draft)
    except _ThereAlreadyError as found:
        return found.version
    update_checkpoint(store, after)
    return after.frozen[-1]


def check_label(label: str | None) -> None:
    """Refuse a text that cannot be a label.

    Raises:
        UsageError: It is empty, too long, not printable, or means a version or a transaction.
    """
    if label is None:
        return
    if not isinstance(label, str):
        raise UsageError(f"the label {label!r} is no text: use a word")
    if not label.strip() or label != label.strip() or not label.isprintable():
        raise UsageError(
            f"the label {label!r} is empty, is padded with blanks, or has control characters in it"
        )
    if label.isdecimal() or label.startswith("@"):
        raise UsageError(
            f"the label {label!r} looks like a version's number or a transaction's: use a word"
        )
    if len(label) > MAX_LABEL:
        raise UsageError(f"the label {label[:20]!r}… is longer than {MAX_LABEL} characters")


def misfits_error(snapshot: Snapshot, misfits: list[ColumnMisfits]) -> SingerlakeError:
    """Say why a state cannot be a version: its values that do not fit."""
    columns = [one.column for one in misfits]
    keyed = bool(snapshot.schema.key_properties)
    return MisfitsError.of_lines(
        f"{snapshot.table} at transaction {snapshot.number} has values that do not fit their "
        "columns, and nothing was frozen:",
        *(f"  {one}" for one in misfits),
        ways_out(snapshot.table, columns, keyed=keyed),
    )
