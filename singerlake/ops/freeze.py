"""Freeze: a number, and perhaps a label, that mean the state of a table at a transaction for ever.

What a version means is read once more and summed up before it is committed: all rows, from the
index of the state, which is made where there is none. A state whose values do not fit their
columns, or that cannot be read, gets no version.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from singerlake.engine.base import Engine
from singerlake.engine.work import Work
from singerlake.errors import NotFoundError
from singerlake.format.log import FrozenVersion
from singerlake.lake import Table
from singerlake.lineage import told
from singerlake.maintenance import freeze as plans
from singerlake.maintenance.freeze import FreezePlan
from singerlake.ops.engines import EngineChoice
from singerlake.reading import index
from singerlake.records.state.fingerprint import Content
from singerlake.records.state.parquet_parts import IndexDamagedError
from singerlake.snapshot import building
from singerlake.snapshot.content import index_content, index_misfits
from singerlake.snapshot.from_blocks import needed_blocks
from singerlake.transactions.snapshot import Snapshot

logger = logging.getLogger(__name__)
WHAT = "freezing a version"


@dataclass(frozen=True)
class FreezeOptions:
    """What to freeze, and how.

    Attributes:
        at: The transaction whose state gets a version; the head by default.
        label: A name that can stand for the version's number.
        comment: Why; kept with the version.
        again: Make a new version even if the state has one.
        allow_violations: Freeze rows that break the table's constraints; the version says so.
        instead: Finds, in the table as it is then, a version that will do; by default one of the
            same state, with the label, unless ``again``.
    """

    at: int | None = None
    label: str | None = None
    comment: str | None = None
    again: bool = False
    allow_violations: bool = False
    instead: Callable[[Snapshot], FrozenVersion | None] | None = None


@dataclass(frozen=True)
class Frozen:
    """What a freeze made.

    Attributes:
        version: The version as the log has it.
        new: Whether it was made now.
    """

    version: FrozenVersion
    new: bool


def freeze(
    table: Table, options: FreezeOptions | None = None, choice: EngineChoice | None = None
) -> Frozen:
    """Make a table version.

    Args:
        table: The table.
        options: What to freeze; the head by default.
        choice: What may read its rows.

    Raises:
        NotFoundError: There is no such table or transaction.
        UsageError: The label cannot be one or is taken, or the log is lost.
        ConflictError: The label was taken meanwhile, or a vacuum came in between.
        DamagedError: A row cannot be read under the table's schema.
        MisfitsError: A value does not fit its column.
        ViolationsError: Rows break the table's constraints.
        RuntimeMissingError: Spark is needed, and it or Java is not installed.
    """
    options, choice = options or FreezeOptions(), choice or EngineChoice()
    head = table.snapshot()
    if (there := _instead(head, options)(head)) is not None:
        return Frozen(there, new=False)
    # What is refused is refused before Java starts, and before a lease is asked for.
    engine = _engine_for(choice, plans.plan(head, at=options.at, label=options.label))
    with table.lease() as lease:
        return _freeze(table, lease.snapshot, options, choice, engine)


def _freeze(
    table: Table,
    head: Snapshot,
    options: FreezeOptions,
    choice: EngineChoice,
    engine: Engine[Any],
) -> Frozen:
    found: list[FrozenVersion] = []

    def instead(present: Snapshot) -> FrozenVersion | None:
        there = find(present)
        found.extend([] if there is None else [there])
        return there

    find = _instead(head, options)
    if (there := instead(head)) is not None:
        return Frozen(there, new=False)
    with told(table, "freeze") as telling:
        wanted = plans.plan(head, at=options.at, label=options.label, comment=options.comment)
        telling.read(wanted.at)
        # Another time: the table may have grown, or got constraints, since it was looked at.
        engine = _engine_for(choice, wanted, engine)
        content = _content(engine, table, wanted.at)
        violations = _violations(engine, table, wanted.at, options)
        with engine.stages("committing"):
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
        return Frozen(version, new=not found)


def _instead(head: Snapshot, options: FreezeOptions) -> Callable[[Snapshot], FrozenVersion | None]:
    """Return what finds a version that will do, in the table as it is then."""
    if options.instead is not None:
        return options.instead
    if options.again:
        return plans.no_other
    number = head.number if options.at is None else options.at

    def same_state(present: Snapshot) -> FrozenVersion | None:
        try:
            return plans.version_of_state(
                present, number, label=options.label, allow_violations=options.allow_violations
            )
        except NotFoundError:
            return None  # what becomes of a state that is gone, others say

    return same_state


def _engine_for(
    choice: EngineChoice, wanted: FreezePlan, started: Engine[Any] | None = None
) -> Engine[Any]:
    state = wanted.at
    sql = f"the constraints of {state.table}" if state.overlay.constraints else None
    work = Work.of(needed_blocks(state), len(state.columns))
    return choice.engine_for(work, WHAT, sql=sql, started=started)


def _content(engine: Engine[Any], table: Table, snapshot: Snapshot) -> Content:
    """Through the index; where it is not what it says, through a new one from the blocks."""
    try:
        content, rows = _index_content(engine, table, snapshot)
        if rows in (content.rows, None):
            return content
        logger.warning("the index of %s is not what its marker says; making it again", table.name)
    except IndexDamagedError as error:  # of a block, or a row, it would be the same once more
        logger.warning("%s; trying once more without the indexes there are", error)
    index.drop(table, snapshot)
    return _index_content(engine, table, snapshot, fresh=True)[0]


def _index_content(
    engine: Engine[Any], table: Table, snapshot: Snapshot, *, fresh: bool = False
) -> tuple[Content, int | None]:
    """What a transaction's index holds, and how many rows it says it has.

    Raises:
        MisfitsError: A value does not fit: a version is what its rows say, or none, and nothing
            is made null or text on the way.
    """
    with engine.followed_by(1):
        built = building.ensure(engine, table, snapshot, fresh=fresh, shown=True)
    if misfits := index_misfits(engine, built):
        raise plans.misfits_error(snapshot, misfits)
    return index_content(engine, built), built.marker.rows


def _violations(
    engine: Engine[Any], table: Table, snapshot: Snapshot, options: FreezeOptions
) -> list[str]:
    """The names of the constraints that rows break, where that is allowed.

    Raises:
        ViolationsError: It is not.
    """
    if not snapshot.overlay.constraints:
        return []
    from singerlake.spark.engine import SparkEngine
    from singerlake.spark.sql.violations import broken_constraints, violations_error

    if not isinstance(engine, SparkEngine):
        raise TypeError("constraints are checked by Spark")
    broken = broken_constraints(engine, table, snapshot)
    if broken and not options.allow_violations:
        raise violations_error(snapshot, broken)
    return [one.name for one in broken]
