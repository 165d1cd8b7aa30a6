"""Freezing: a number, and perhaps a label, that mean one transaction for ever.

Plain data and the commit; what Spark has to find out comes in as arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from singerlake.errors import ConflictError, SingerlakeError, UsageError
from singerlake.format.log import Entry, FrozenVersion
from singerlake.storage.base import Store
from singerlake.transactions.commit import commit, current_user, new_entry, new_writer_id
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.writer import update_checkpoint

OPERATION = "freeze"
MAX_LABEL = 100


@dataclass(frozen=True)
class FreezePlan:
    """What will be frozen.

    Attributes:
        head: The last transaction that was known when the plan was made.
        at: The table at the transaction to be frozen.
        label: The version's name beside its number.
        comment: Free text.
    """

    head: int
    at: Snapshot
    label: str | None
    comment: str | None


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
    _check_label(snapshot, label, UsageError)
    number = snapshot.head if at is None else at
    snapshot.summary(number)
    return FreezePlan(snapshot.head, snapshot.at(number), label, comment)


def commit_version(
    store: Store,
    snapshot: Snapshot,
    wanted: FreezePlan,
    *,
    rows: int,
    fingerprint: str,
    record_fingerprint: str = "",
    lanes: Mapping[str, str] | None = None,
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

    Returns:
        The version, with the number it got.

    Raises:
        ConflictError: The label was taken meanwhile, a vacuum took blocks away, or an earlier
            release froze the same state, whose columns are read by its rules from then on.
        StoreError: The store refused.
    """
    # Read now: the head's snapshot grows with the commit, and ``wanted.at`` may be the same.
    transaction, schema_hash, rules = wanted.at.head, wanted.at.schema_hash, wanted.at.rules

    def build(present: Snapshot, number: int, commit_id: str, time: str) -> Entry:
        _check_label(present, wanted.label, ConflictError)
        _check_readable(present, transaction)
        _check_rules(present, transaction, rules)
        version = FrozenVersion(
            number=max((v.number for v in present.frozen), default=0) + 1,
            transaction=transaction,
            schema_hash=schema_hash,
            rows=rows,
            fingerprint=fingerprint,
            record_fingerprint=record_fingerprint,
            label=wanted.label,
            comment=wanted.comment,
            time=time,
            by=current_user(),
            types=rules,
        )
        return new_entry(
            present.table,
            OPERATION,
            number,
            commit_id,
            time,
            writer=new_writer_id(),
            version=version,
            lanes=dict(lanes or {}),
        )

    after = commit(store, snapshot, build)
    update_checkpoint(store, after)
    return after.frozen[-1]


def _check_label(snapshot: Snapshot, label: str | None, taken_error: type[SingerlakeError]) -> None:
    if label is None:
        return
    if not label.strip() or label != label.strip() or not label.isprintable():
        raise UsageError(f"the label {label!r} is empty, or has blanks around or controls in it")
    if label.isdecimal() or label.startswith("@"):
        raise UsageError(
            f"the label {label!r} looks like a version's number or a transaction's: use a word"
        )
    if len(label) > MAX_LABEL:
        raise UsageError(f"the label {label[:20]!r}… is longer than {MAX_LABEL} characters")
    for version in snapshot.frozen:
        if version.label == label:
            raise taken_error(
                f"version {version.number} of {snapshot.table} has the label {label!r} already: "
                "choose another"
            )


def _check_readable(present: Snapshot, transaction: int) -> None:
    """A version must never name a state that a vacuum has given up while it was read."""
    if not present.readable(transaction):
        raise ConflictError(
            f"the history that transaction {transaction} of {present.table} needs was dropped "
            "while it was read: nothing was frozen"
        )


def _check_rules(present: Snapshot, transaction: int, rules: int) -> None:
    """A state is read by one set of rules, that of the version which froze it first."""
    if present.at(transaction).rules != rules:
        raise ConflictError(
            f"an earlier release froze transaction {transaction} of {present.table} meanwhile, and "
            "its columns are read by that release's rules now: nothing was frozen; freeze it again"
        )
