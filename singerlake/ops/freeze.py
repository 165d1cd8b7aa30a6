"""Freeze: a number, and perhaps a label, that mean the state of a table at a transaction for ever.

What a version means is read once more and summed up before it is committed: all rows, from the
index of the state, which is made where there is none. A state whose values do not fit their
columns, or that cannot be read, gets no version.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from singerlake.annotations.requirement import Requirement
from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.errors import (
    MisfitsError,
    NotFoundError,
    SingerlakeError,
    UsageError,
    ViolationsError,
)
from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.format.version_notes import PointerMove
from singerlake.lake import Table
from singerlake.lineage import told
from singerlake.log import conflicts, versions
from singerlake.log.commit import commit, current_user, draft_entry, new_writer_id
from singerlake.log.requested_state import Naming, requested_transaction
from singerlake.log.table_state import TableState
from singerlake.log.writer import update_checkpoint
from singerlake.ops.point import Pointed, point, pointer_name
from singerlake.ops.requirements import annotated
from singerlake.ops.requirements.check import check_snapshot, requirements_error
from singerlake.ops.sign.sign import SignedVersion, Signer, sign
from singerlake.rows.batches.violations import Violation
from singerlake.rows.blocks.misfits import ColumnMisfits, ways_out
from singerlake.rows.state.fingerprint import Content
from singerlake.rows.state.parquet_parts import IndexDamagedError
from singerlake.snapshot import building, index
from singerlake.snapshot.content import index_content, index_misfits
from singerlake.snapshot.from_blocks import reading
from singerlake.storage.base import Store

logger = logging.getLogger(__name__)
WHAT = "freezing a version"


@dataclass(frozen=True)
class FreezeOptions:
    """The options of a freeze.

    Attributes:
        at: The transaction whose state gets a version; the head by default.
        label: A name that can stand for the version's number.
        comment: Why; kept with the version.
        again: Make a new version even if the state has one.
        allow_violations: Freeze rows that break the table's constraints; the version says so.
        pointer: A pointer that is moved to the version, by its name: ``current``.
        require: Requirements that the snapshot must meet beside those that the table is annotated
            with, such as ``rows > 0``; kept with the version.
        met: Requirements that were checked just now, so that none is checked; kept with the
            version.
        signer: Signs the version, in a transaction of its own.
        instead: Finds, in the table as it is then, a version that will do; by default one of the
            same state, with the label, unless ``again``.
        named: What the caller was given that may name a transaction, instead of ``at``.
    """

    at: int | None = None
    label: str | None = None
    comment: str | None = None
    again: bool = False
    allow_violations: bool = False
    pointer: str | None = None
    require: Sequence[str] = ()
    met: Sequence[str] | None = None
    signer: Signer | None = None
    instead: Callable[[TableState], FrozenVersion | None] | None = None
    named: Sequence[Naming] = ()


@dataclass(frozen=True)
class Frozen:
    """The result of a freeze.

    Attributes:
        version: The version as the log has it.
        new: Whether it was made now.
        pointer: The pointer that names it, if one was to be moved.
        signed: The version with its signature, if it was to be signed.
    """

    version: FrozenVersion
    new: bool
    pointer: Pointed | None = None
    signed: SignedVersion | None = None


def freeze(
    table: Table, options: FreezeOptions | None = None, choice: EngineChoice | None = None
) -> Frozen:
    """Make a table version.

    Args:
        options: What to freeze; the head by default.

    Raises:
        NotFoundError: There is no such table or transaction, or the table is younger than the time.
        UsageError: The label cannot be one or is taken, the log is lost, or two snapshots are
            named, or a time is none.
        ConflictError: The label was taken meanwhile, or a vacuum came in between.
        DamagedError: A row cannot be read under the table's schema.
        MisfitsError: A value does not fit its column.
        ViolationsError: Rows break the table's constraints.
        RequirementsError: The snapshot does not meet a requirement.
        SingerlakeError: The signer failed; the version is there, and unsigned.
    """
    options, choice = options or FreezeOptions(), choice or EngineChoice()
    if options.signer is not None:
        return _signed(table, options, choice, options.signer)
    if options.pointer is None:
        return _frozen(table, table.snapshot(), options, choice)
    name = pointer_name(options.pointer)
    began = table.snapshot()
    done = _frozen(table, began, replace(options, pointer=name), choice)
    if not done.new:
        return _pointed(table, began, name, done)
    before = versions.pointers(began).get(name)  # the move is in one entry with the version
    number = None if before is None else before[0].number
    at = done.version.pointed[-1].transaction
    return replace(done, pointer=Pointed(name, done.version, number, at))


def _signed(table: Table, options: FreezeOptions, choice: EngineChoice, signer: Signer) -> Frozen:
    """Freeze, sign, and then move the pointer, so that it never names an unsigned version."""
    name = None if options.pointer is None else pointer_name(options.pointer)
    began = table.snapshot()
    done = _frozen(table, began, replace(options, pointer=None), choice)
    number = done.version.number
    try:
        signed = sign(table.store, table.snapshot(), str(number), signer)
    except SingerlakeError as error:
        made = "was frozen" if done.new else "is there"
        still = "" if name is None else f", and the pointer @{name} did not move"
        raise type(error)(
            f"{error}; version {number} of {table.name} {made} and is not signed{still}: sign it "
            f"with singerlake sign {table.name}.{number}"
        ) from error
    done = replace(done, version=signed.version, signed=signed)
    return done if name is None else _pointed(table, began, name, done)


def _pointed(table: Table, began: TableState, name: str, done: Frozen) -> Frozen:
    """Move a pointer to a version that is there.

    Args:
        began: The table when the freeze began.

    Raises:
        ConflictError: The pointer moved to another version since then, perhaps to a newer one.
    """
    head, number = table.snapshot(), done.version.number
    there = versions.pointers(head).get(name)
    if there is None or there[0].number != number:
        conflicts.check_pointer_unmoved(head, began, name)
    moved = point(table.store, head, name, str(number))
    return replace(done, version=moved.version or done.version, pointer=moved)


def _frozen(table: Table, head: TableState, options: FreezeOptions, choice: EngineChoice) -> Frozen:
    if any(one.value is not None for one in options.named):  # or else the head, which may grow
        head.check_log()
        options = replace(options, at=requested_transaction(head, *options.named)[1])
    required: Sequence[Requirement] = ()
    if options.met is None:
        required = annotated.required(table.store, [table.name], options.require)[table.name]
    there = _instead(head, options)(head)
    if there is not None and not required:
        return Frozen(there, new=False)
    # What is refused is refused before Java starts, and before a lease is asked for.
    state = _state(head, options) if there is not None else _plan(head, options).at
    engine = _engine_for(choice, state)
    with table.lease() as lease:
        return _freeze(table, head, lease.snapshot, options, required, choice, engine)


def _plan(head: TableState, options: FreezeOptions) -> FreezePlan:
    return plan(head, at=options.at, label=options.label, comment=options.comment)


def _state(head: TableState, options: FreezeOptions) -> TableState:
    return head.at(head.number if options.at is None else options.at)


def _freeze(
    table: Table,
    began: TableState,
    head: TableState,
    options: FreezeOptions,
    required: Sequence[Requirement],
    choice: EngineChoice,
    engine: Engine[Any],
) -> Frozen:
    found: list[FrozenVersion] = []

    def instead(present: TableState) -> FrozenVersion | None:
        there = find(present)
        found.extend([] if there is None else [there])
        return there

    find = _instead(head, options)
    if (there := instead(head)) is not None:
        if required:
            state = _state(head, options)
            engine = _engine_for(choice, state, engine)
            _check_required(engine, table, head, state, required, choice)
        return Frozen(there, new=False)
    with told(table, "freeze") as telling:
        wanted = _plan(head, options)
        telling.read(wanted.at)
        # Another time: the table may have grown, or got constraints, since it was looked at.
        engine = _engine_for(choice, wanted.at, engine)
        content = _content(engine, table, wanted.at)
        _check_required(engine, table, head, wanted.at, required, choice)
        violations = _violations(choice, engine, table, wanted.at, options)
        with engine.stages("committing"):
            version = commit_version(
                table.store,
                head,
                wanted,
                rows=content.rows,
                fingerprint=content.fingerprint,
                record_fingerprint=content.record_fingerprint,
                lanes={proof.value: hashed.encoded for proof, hashed in content.hashes.items()},
                violations=violations,
                requirements=options.met or [one.text for one in required],
                pointer=options.pointer,
                began=began,
                instead=instead,
            )
        telling.wrote(wanted.at, rows=version.rows, version=version)
        return Frozen(version, new=not found)


def _instead(
    head: TableState, options: FreezeOptions
) -> Callable[[TableState], FrozenVersion | None]:
    """Return what finds a version that will do, in the table as it is then."""
    if options.instead is not None:
        return options.instead
    if options.again:
        return no_other
    number = head.number if options.at is None else options.at

    def same_state(present: TableState) -> FrozenVersion | None:
        try:
            return version_of_state(
                present, number, label=options.label, allow_violations=options.allow_violations
            )
        except NotFoundError:
            return None  # what becomes of a state that is gone, others say

    return same_state


def _check_required(
    engine: Engine[Any],
    table: Table,
    head: TableState,
    state: TableState,
    required: Sequence[Requirement],
    choice: EngineChoice,
) -> None:
    if not required:
        return
    if unmet := check_snapshot(engine, table, head, state, required, choice):
        raise requirements_error({f"{table.name} at transaction {state.number}": unmet})


def _engine_for(
    choice: EngineChoice,
    state: TableState,
    started: Engine[Any] | None = None,
) -> Engine[Any]:
    sql, work = None, reading(state)
    if constraints := state.overlay.constraints:
        from singerlake.sql.constraints import asked_of_spark  # late: few tables have constraints

        sql = asked_of_spark(choice, state, constraints)
    return choice.engine_for(work, WHAT, sql=sql, started=started)


def _content(engine: Engine[Any], table: Table, snapshot: TableState) -> Content:
    """Through the index; where it is not what it says, through a new one from the blocks."""
    try:
        content, rows = _index_content(engine, table, snapshot)
        if rows in (content.rows, None):
            return content
        logger.warning(
            "the materialized snapshot of %s does not match its marker; recreating it", table.name
        )
    except IndexDamagedError as error:  # of a block, or a row, it would be the same once more
        logger.warning("%s; trying once more without the existing materialized snapshots", error)
    index.drop(table, snapshot)
    return _index_content(engine, table, snapshot, fresh=True)[0]


def _index_content(
    engine: Engine[Any], table: Table, snapshot: TableState, *, fresh: bool = False
) -> tuple[Content, int | None]:
    """Return the content of a transaction's index, and the number of rows it records.

    Raises:
        MisfitsError: A value does not fit: a version is what its rows say, or none, and nothing
            is made null or text on the way.
    """
    with engine.followed_by(1):
        built = building.ensure(engine, table, snapshot, fresh=fresh, shown=True)
    if misfits := index_misfits(engine, built):
        raise misfits_error(snapshot, misfits)
    return index_content(engine, built), built.marker.rows


def _violations(
    choice: EngineChoice,
    engine: Engine[Any],
    table: Table,
    snapshot: TableState,
    options: FreezeOptions,
) -> list[str]:
    """The names of the constraints that rows break, where that is allowed.

    Raises:
        ViolationsError: It is not.
    """
    if not snapshot.overlay.constraints:
        return []
    from singerlake.sql.constraints import broken_constraints

    broken = broken_constraints(choice, engine, table, snapshot)
    if broken and not options.allow_violations:
        raise violations_error(snapshot, broken)
    return [one.name for one in broken]


# Freezing: a number, and perhaps a label, that mean one transaction for ever.
#
# Plain data and the commit; what Spark has to find out comes in as arguments.

MAX_LABEL = 100


@dataclass(frozen=True)
class FreezePlan:
    """The plan of a freeze.

    Attributes:
        at: The table at the transaction to be frozen.
        label: The version's name beside its number.
    """

    at: TableState
    label: str | None
    comment: str | None


class _ThereAlreadyError(Exception):
    """Somebody else made a version that is taken instead."""

    def __init__(self, version: FrozenVersion) -> None:
        super().__init__(version.number)
        self.version = version


def no_other(_present: TableState) -> None:
    """Take no other version instead of the one that is wanted."""


def version_of_state(
    head: TableState,
    number: int | None = None,
    *,
    label: str | None = None,
    allow_violations: bool = False,
) -> FrozenVersion | None:
    """Return the newest version that means a state of a table already; None where none does.

    Args:
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
    snapshot: TableState,
    *,
    at: int | None = None,
    label: str | None = None,
    comment: str | None = None,
) -> FreezePlan:
    """Check what can be checked before any data is read.

    Args:
        at: The transaction; the head by default.

    Raises:
        UsageError: The table has no log, or the label cannot be one or is taken.
        NotFoundError: There is no such transaction.
    """
    snapshot.check_log()
    check_label(label)
    if taken := conflicts.taken_label(snapshot, label):
        raise UsageError(taken)
    number = snapshot.number if at is None else at
    snapshot.summary(number)
    return FreezePlan(snapshot.at(number), label, comment)


def commit_version(
    store: Store,
    snapshot: TableState,
    wanted: FreezePlan,
    *,
    rows: int,
    fingerprint: str,
    record_fingerprint: str = "",
    lanes: Mapping[str, str] | None = None,
    violations: Sequence[str] = (),
    requirements: Sequence[str] = (),
    pointer: str | None = None,
    began: TableState | None = None,
    instead: Callable[[TableState], FrozenVersion | None] = no_other,
) -> FrozenVersion:
    """Commit the version.

    Args:
        snapshot: The table's head, as last seen.
        lanes: What the fingerprints are the hashes of, by the same names, encoded.
        violations: The names of the constraints that the rows do not keep.
        requirements: Those that were met.
        pointer: The name of a pointer that is moved to the version in the same transaction.
        began: The table since when the pointer must not have moved; by default ``snapshot``.
        instead: Finds, in the table as it is then, a version that will do; nothing is committed
            where there is one.

    Returns:
        The version, with the number it got; or the one that is there instead.

    Raises:
        ConflictError: The label was taken meanwhile, another process moved the pointer, or a
            vacuum took blocks away.
    """
    transaction, rules = wanted.at.number, wanted.at.rules

    def draft(present: TableState) -> Entry:
        if (there := instead(present)) is not None:
            raise _ThereAlreadyError(there)
        conflicts.check_label_free(present, wanted.label)
        conflicts.check_readable(present, transaction)
        move = None
        if pointer is not None:
            conflicts.check_pointer_unmoved(present, began or snapshot, pointer)
            move = PointerMove(pointer, present.last_version + 1, current_user())
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
            requirements=list(requirements),
        )
        return draft_entry(
            present.table,
            Operation.FREEZE,
            writer=new_writer_id(),
            version=version,
            pointer=move,
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
        raise UsageError(f"the label {label!r} is not text: use a word")
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


def misfits_error(snapshot: TableState, misfits: list[ColumnMisfits]) -> SingerlakeError:
    """Say why a state cannot be a version: its values that do not fit."""
    columns = [one.column for one in misfits]
    keyed = bool(snapshot.schema.key_properties)
    return MisfitsError.of_lines(
        f"{snapshot.table} at transaction {snapshot.number} has values that do not fit their "
        "columns, and nothing was frozen:",
        *(f"  {one}" for one in misfits),
        ways_out(snapshot.table, columns, keyed=keyed),
    )


def violations_error(snapshot: TableState, found: Sequence[Violation]) -> SingerlakeError:
    """Return the error of a state that cannot be a version: some rows violate constraints."""
    return ViolationsError.of_lines(
        f"rows of {snapshot.table} at transaction {snapshot.number} do not keep its constraints, "
        "and nothing was frozen:",
        *(line for one in found for line in one.lines()),
        "correct these rows, drop the constraint (singerlake alter), or freeze them all the same "
        "with --allow-violations, which marks the version",
    )
