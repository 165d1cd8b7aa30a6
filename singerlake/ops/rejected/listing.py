"""Rejected records that are kept: which there are, as Singer messages, and discarded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from singerlake.engine.choice import EngineChoice
from singerlake.errors import NotFoundError, UsageError
from singerlake.format import messages
from singerlake.format.names import REJECTED, TableName
from singerlake.lake import Lake, Table
from singerlake.log.commit import new_writer_id
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions
from singerlake.ops.rejected import kept
from singerlake.ops.rejected.kept import KeptLine
from singerlake.ops.rejected.settle import Settlement, SettleOptions, settle
from singerlake.ops.vacuum.plan import VacuumOptions, vacuum_lock

HOLDER = "a vacuum, an erasure or another replay"
"""What may have the lock of a dead-letter table."""


@dataclass(frozen=True)
class Selection:
    """Which of the rejected lines are meant; all of them by default.

    Attributes:
        reason: Those that were rejected for it; see ``kept.of_reason``.
        where: Those for which a condition in SQL on the columns of the dead-letter table is true.
    """

    reason: str | None = None
    where: str | None = None

    @property
    def all(self) -> bool:
        """Whether it selects nothing out."""
        return self.reason is None and self.where is None

    def resolved(self, rejected: Table, choice: EngineChoice) -> Callable[[KeptLine], bool]:
        """Ask the condition, and return what tells whether a line is meant.

        Raises:
            UsageError: Only this process may be used, and the condition needs Spark.
            InvalidQueryError: The condition is not SQL.
        """
        of_reason = kept.meant_by(self.reason)
        if self.where is None:
            return of_reason
        digests = _digests(rejected, self.where, choice)
        return lambda line: line.digest in digests and of_reason(line)


def _digests(rejected: Table, where: str, choice: EngineChoice) -> frozenset[str]:
    from singerlake.sql.answers import answer  # late: few selections need it

    tap, stream = (part.replace("`", "``") for part in (rejected.name.tap, rejected.name.stream))
    sql = f"select digest from `{tap}`.`{stream}` where ({where})"  # noqa: S608  # only SELECTs run
    with answer(Lake(rejected.store), sql, choice) as found:
        return frozenset(str(row[0]) for row in found.rows())


def dead_letter_tables(lake: Lake) -> list[TableName]:
    """List the tables that hold rejected lines, sorted."""
    named = [name for name in lake.tables() if name.stream.endswith(REJECTED)]

    def holds(table: Table) -> bool:
        return kept.holds_rejected(table.snapshot())

    return [name for name, found in lake.each(named, holds) if found is True]


def rejected_lines(
    table: Table, selection: Selection | None = None, choice: EngineChoice | None = None
) -> list[KeptLine]:
    """Return the rejected lines of a table, in the order in which they came.

    Lines that were replayed are not among them, even before the dead-letter table is up to date.

    Args:
        table: The table itself, which need not be there; with an empty stream, the lines of the tap
            that name no known stream.

    Raises:
        NotFoundError: No record of the stream was rejected.
        UsageError: Its dead-letter table has rows of its own.
    """
    rejected = Table(table.store, kept.dead_letters(table.name))
    state = kept.state_of(rejected)
    meant = (selection or Selection()).resolved(rejected, choice or EngineChoice())
    done = replayed(table, state)
    with rejected.lease() as lease:
        lines = kept.kept_lines(rejected, lease.snapshot)
        return [*filter(meant, kept.not_replayed(lines, done))]


def replayed(table: Table, rejected: TableState) -> list[kept.ReplayedLines]:
    """Return what a table has replayed; nothing if it is not there."""
    head = head_of(table)
    return [] if head is None else kept.replayed_lines(table, head, rejected)


def head_of(table: Table) -> TableState | None:
    """Return a table's head; None if there is no such table."""
    if not table.name.stream:
        return None
    try:
        return table.snapshot()
    except NotFoundError:
        return None


def as_messages(table: Table, lines: Iterable[KeptLine]) -> Iterator[bytes]:
    """Yield lines as Singer messages, each with its newline, after the table's SCHEMA.

    Lines of the input come as the tap sent them. Records of BATCH files become RECORD messages.
    """
    head = head_of(table)
    if head is not None:
        yield messages.schema_line(table.name.stream, head.tap_schema)
    for line in lines:
        if line.file is None:
            yield line.text + b"\n"
        else:
            yield messages.record_line(table.name.stream, line.text.strip(), line.time)


@dataclass(frozen=True)
class Discarded:
    """The result of a discard, or of its dry run.

    Attributes:
        transaction: That of the dead-letter table; None where no line was discarded.
        lines: How many.
    """

    transaction: int | None
    lines: int


@dataclass(frozen=True)
class DiscardOptions:
    """The options of a discard.

    Attributes:
        selection: Which lines; not all of them.
        comment: Why; kept with the transaction.
    """

    selection: Selection
    comment: str | None = None
    dry_run: bool = False
    writing: WriteOptions = field(default_factory=WriteOptions)


def discard(table: Table, options: DiscardOptions, choice: EngineChoice | None = None) -> Discarded:
    """Take rejected lines off the list without making rows of them. Its history has them still.

    Args:
        table: As for :func:`rejected_lines`.

    Raises:
        NotFoundError: No record of the stream was rejected.
        UsageError: Nothing selects the lines.
        ConflictError: A vacuum, an erasure or a replay is running, or syncs keep rejecting records.
    """
    if options.selection.all:
        raise UsageError(
            "select the records to discard with --reason or --where; --reason '*' selects all"
        )
    rejected = Table(table.store, kept.dead_letters(table.name))
    kept.state_of(rejected)
    if options.dry_run:
        return Discarded(None, len(rejected_lines(table, options.selection, choice)))
    meant = options.selection.resolved(rejected, choice or EngineChoice())
    gone: list[KeptLine] = []

    def settling(_state: TableState, lines: Iterable[KeptLine]) -> Settlement:
        gone[:] = filter(meant, kept.not_replayed(lines, done))
        return Settlement(gone)

    with lock(rejected, options.writing) as held, rejected.lease():
        done = replayed(table, rejected.snapshot())  # under the lock, which every replay takes
        how = SettleOptions(options.comment, {"discarded": True}, held.check, options.writing)
        after = settle(rejected, settling, how)
    return Discarded(after.number if gone else None, len(gone))


def lock(rejected: Table, writing: WriteOptions) -> Any:
    """The lock that keeps erasures, vacuums and replays off rejected lines."""
    waiting = VacuumOptions(
        lock_wait_seconds=writing.lock_wait_seconds, stale_seconds=writing.lock_stale_seconds
    )
    return vacuum_lock(rejected.store, rejected.name, new_writer_id(), waiting, HOLDER)
