"""Freezing a state as a version: what all ways of it do alike, and a small state in this process.

It is read from its blocks by the steps that Spark's tasks run, in less time than Java
takes to start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import pyarrow as pa

from singerlake.errors import ConflictError, MisfitsError, NotFoundError, SingerlakeError
from singerlake.format.log import Block, FrozenVersion
from singerlake.lake import Table
from singerlake.lineage import told
from singerlake.maintenance import freeze as plans
from singerlake.quantities import size
from singerlake.reading import index, small_state
from singerlake.records.blocks.misfits import ColumnMisfits, ways_out
from singerlake.records.state.fingerprint import FULL, Content, Sums
from singerlake.records.state.misfit_steps import MisfitCounter, merged
from singerlake.records.state.shape import Shape, shape_of
from singerlake.transactions.snapshot import Snapshot

logger = logging.getLogger(__name__)
SMALL_BYTES = 32 << 20
"""Inflated bytes of blocks up to which a state is frozen here: a second's work of one core, where
Java alone takes several to start."""
SMALL_CELLS = 4_000_000
"""Rows in these blocks times the table's columns, up to which it is: where rows have few of many
columns, it is these that take the time and the memory."""


class Proven(NamedTuple):
    """What is kept of a state that may be frozen.

    Attributes:
        content: Its rows and fingerprints.
        violations: The names of the constraints that its rows do not keep.
    """

    content: Content
    violations: Sequence[str] = ()


def frozen(
    table: Table,
    prove: Callable[[Snapshot], Proven],
    *,
    at: int | None = None,
    label: str | None = None,
    comment: str | None = None,
    again: bool = True,
    allow_violations: bool = False,
    instead: Callable[[Snapshot], FrozenVersion | None] | None = None,
    committing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> FrozenVersion:
    """Make a table version.

    Args:
        table: The table.
        prove: Reads a state, and makes its index; raises where it cannot be a version.
        at: The transaction to freeze; the head by default.
        label: A name that can stand for the version's number.
        comment: Free text.
        again: Make another version even if one means the same state, and has the label.
        allow_violations: Take that also if its rows break constraints.
        instead: Finds a version that will do, instead of what ``again`` says.
        committing: Shows that it is being committed.

    Returns:
        The version as the log has it.

    Raises:
        NotFoundError: There is no such table or transaction.
        UsageError: The label cannot be one or is taken, or the log is lost.
        ConflictError: The label was taken meanwhile, or a vacuum came in between.
        SingerlakeError: What ``prove`` raises.
    """
    with table.lease() as lease:
        head = lease.snapshot
        if instead is None:
            number = head.number if at is None else at
            instead = _same_state(number, label, again=again, allow_violations=allow_violations)
        if (there := instead(head)) is not None:
            return there
        with told(table, "freeze") as telling:
            wanted = plans.plan(head, at=at, label=label, comment=comment)
            telling.read(wanted.at)
            content, violations = prove(wanted.at)
            with committing():
                version = plans.commit_version(
                    table.store,
                    head,
                    wanted,
                    rows=content.rows,
                    fingerprint=content.fingerprint,
                    record_fingerprint=content.record_fingerprint,
                    lanes={proof.value: hashed.encoded for proof, hashed in content.hashes.items()},
                    violations=violations,
                    instead=instead,
                )
            telling.wrote(wanted.at, rows=version.rows, version=version)
            return version


def _same_state(
    number: int, label: str | None, *, again: bool, allow_violations: bool
) -> Callable[[Snapshot], FrozenVersion | None]:
    def there(present: Snapshot) -> FrozenVersion | None:
        try:
            return plans.version_of_state(
                present, number, label=label, allow_violations=allow_violations
            )
        except NotFoundError:
            return None  # what becomes of a state that is gone, others say

    return plans.no_other if again else there


def is_small(snapshot: Snapshot) -> bool:
    """Tell whether a state is frozen here: it is small, and no SQL has to be asked of its rows."""
    if snapshot.overlay.constraints:
        return False
    return are_small(small_state.blocks_of(snapshot), len(snapshot.columns))


def are_small(blocks: Iterable[Block], columns: int, most: int | None = None) -> bool:
    """Tell whether blocks are read here.

    Args:
        blocks: The blocks.
        columns: How many columns the table has.
        most: Inflated bytes that they may have; :data:`SMALL_BYTES` by default.
    """
    rows = bytes_ = 0
    for block in blocks:
        rows += block.rows
        bytes_ += block.bytes
    most = SMALL_BYTES if most is None else most
    return bytes_ <= most and rows * columns <= SMALL_CELLS


def freeze_small(
    table: Table,
    *,
    at: int | None = None,
    label: str | None = None,
    comment: str | None = None,
    again: bool = True,
    allow_violations: bool = False,
) -> FrozenVersion:
    """Make a version of a state that :func:`is_small`, without Spark; else as :func:`frozen`.

    Raises:
        DamagedError: A row cannot be read under the table's schema.
        MisfitsError: A value does not fit its column.
    """
    return frozen(
        table,
        lambda state: _proven(table, state),
        at=at,
        label=label,
        comment=comment,
        again=again,
        allow_violations=allow_violations,
    )


def freeze_if_small(
    table: Table,
    spark: object | None,
    *,
    at: int | None,
    label: str | None,
    comment: str | None,
    again: bool = True,
    allow_violations: bool = False,
) -> FrozenVersion | None:
    """Make a version here, where no session is given that could; else as :func:`freeze_small`.

    Returns:
        None where Spark is to make it; by then all was checked that can be before it starts.
    """
    head = table.snapshot()
    there = plans.version_of_state(head, at, label=label, allow_violations=allow_violations)
    if there is not None and not again:
        return there
    wanted = plans.plan(head, at=at, label=label, comment=comment)
    if spark is not None or not is_small(wanted.at):
        return None
    return freeze_small(
        table,
        at=at,
        label=label,
        comment=comment,
        again=again,
        allow_violations=allow_violations,
    )


def _proven(table: Table, snapshot: Snapshot) -> Proven:
    if not is_small(snapshot):
        raise ConflictError(
            f"{table.name} grew to {size(_bytes(snapshot))}, or got constraints, "
            "while it was about to be frozen: freeze it again"
        )
    snapshot = snapshot.earliest_equal()
    shape = shape_of(snapshot)
    rows = [*small_state.rows(table, snapshot, digests=True)]
    if misfits := _misfits(rows, shape):
        raise misfits_error(snapshot, misfits)
    sums = Sums(FULL)
    for batch in rows:
        sums.take(batch, shape.columns)
    content = sums.content()
    there = index.sound(table, snapshot)
    if there is not None and there.marker.rows not in (content.rows, None):
        logger.warning("the index of %s is not what its marker says; making it again", table.name)
        index.drop(table, snapshot)
        there = None
    if there is None:
        small_state.write(table, snapshot, rows)
    return Proven(content)


def _bytes(snapshot: Snapshot) -> int:
    return sum(block.bytes for block in small_state.blocks_of(snapshot))


def _misfits(rows: Sequence[pa.RecordBatch], shape: Shape) -> list[ColumnMisfits]:
    counted = MisfitCounter.of(shape)(iter(rows))
    return merged([row for batch in counted for row in batch.to_pylist()], shape)


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
