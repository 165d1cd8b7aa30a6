"""Freezing many tables as one: a number, and perhaps a label, for one version of each.

Plain data and the commit. Each table gets a version of its own first, so a run that dies half-way
leaves these and no lake version, and the next run finds them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from singerlake.errors import ConflictError, NotFoundError, UsageError
from singerlake.format import times
from singerlake.format.lake_log import LakeTable, LakeVersion, fingerprint, in_order
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.log import lake_log, log
from singerlake.log.commit import SOFTWARE, current_user, new_writer_id
from singerlake.log.table_state import TableState
from singerlake.ops.freeze import check_label, version_of_state
from singerlake.ops.freeze import plan as table_plan
from singerlake.storage.base import READERS, Store
from singerlake.version import FORMAT

# A consistent cut: the heads that many tables had at one moment of the lake.
#
# No store reads many logs at once. So all heads are read, and then looked at again: where none has
# moved, all of them were the heads at every moment between the two looks. Where one has moved, the
# second look counts as the first, and so on. Writers are never held up for it.

LOOKERS = 16
"""Tables that are looked at at the same time; on a bucket, most of that is waiting."""
PATIENCE_SECONDS = 60.0
"""How long to wait for a moment in which no table moves."""
_SHOWN = 3


@dataclass(frozen=True)
class Head:
    """Where a table's log ends.

    Attributes:
        number: Its last transaction.
        commit: That one's id.
        dropped: Whether the table was dropped.
    """

    number: int
    commit: str
    dropped: bool


@dataclass(frozen=True)
class Cut:
    """Heads of one moment.

    Attributes:
        heads: By table; a table in which nothing was ever committed has none.
        time: A moment at which these were the heads, ISO 8601 in UTC, by this machine's clock.
    """

    heads: Mapping[TableName, Head]
    time: str


def take_cut(
    store: Store,
    tables: Callable[[], Iterable[TableName]],
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Cut:
    """Read the heads that tables had at one moment.

    Args:
        store: The lake's store.
        tables: Lists the tables, each time anew: one that somebody makes meanwhile moves, too.
        patience_seconds: How long to wait for a moment in which no table moves.

    Raises:
        ConflictError: There was none.
        DamagedError: A log cannot be read.
    """
    deadline = time.monotonic() + patience_seconds
    heads = _look(store, tables(), {})
    while True:
        moment = times.iso(times.now())
        again = _look(store, tables(), heads)
        if again == heads:
            return Cut(heads, moment)
        if time.monotonic() >= deadline:
            moved = sorted(t for t in {*heads, *again} if heads.get(t) != again.get(t))
            more = f" and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
            raise ConflictError(
                f"there was no moment in {patience_seconds:g} s at which no table changed: the "
                f"last to change were {', '.join(map(str, moved[:_SHOWN]))}{more}; nothing was "
                "frozen: run it again when there are fewer writers, or name fewer tables"
            )
        heads = again


def _look(
    store: Store, tables: Iterable[TableName], known: Mapping[TableName, Head]
) -> dict[TableName, Head]:
    """The tables' heads now; of one that is known, it is enough that no entry follows."""

    def head(table: TableName) -> Head | None:
        before = known.get(table)
        if before is not None and not store.exists(table.transaction(before.number + 1)):
            return before
        snapshot = log.read_snapshot(store, table)
        if snapshot is None:
            return None
        return Head(snapshot.number, snapshot.commit, bool(snapshot.dropped_at))

    listed = sorted(set(tables))
    with ThreadPoolExecutor(LOOKERS, "cut") as pool:
        found = zip(listed, pool.map(head, listed), strict=True)
        return {table: one for table, one in found if one is not None}


@dataclass(frozen=True)
class LakeFreeze:
    """What will be frozen as one.

    Attributes:
        cut: The tables' heads.
        label: The lake version's name beside its number.
        comment: Free text; the new table versions get it too.
        found: Versions that there are, of tables whose state they mean already.
        again: Whether there is to be another lake version even if one names the same versions.
    """

    cut: Cut
    label: str | None
    comment: str | None
    found: Mapping[TableName, FrozenVersion]
    again: bool = True

    @property
    def missing(self) -> list[TableName]:
        """The tables that need a new version, sorted."""
        return sorted(self.cut.heads.keys() - self.found.keys())


def plan(
    store: Store,
    tables: Callable[[], Iterable[TableName]],
    *,
    named: Iterable[TableName] = (),
    label: str | None = None,
    comment: str | None = None,
    allow_violations: bool = False,
    again: bool = True,
    patience_seconds: float = PATIENCE_SECONDS,
) -> LakeFreeze:
    """Check label and tables, read the heads of one moment, and find the versions there are.

    Args:
        store: The lake's store.
        tables: Lists the tables, each time anew. Those that were dropped, or in which nothing
            was committed yet, are left out.
        named: Those that must not be left out, for somebody named them.
        label: A name for the lake version.
        comment: Free text.
        allow_violations: Use versions that say that their rows break constraints, too.
        again: Make another lake version even if one names the same versions.
        patience_seconds: How long to wait for a moment in which no table moves.

    Raises:
        UsageError: The label cannot be one or is taken.
        NotFoundError: A table that is named is not there, or there is no table at all.
        ConflictError: There was no such moment.
        DamagedError: A log cannot be read.
    """
    check_label(label)
    taken = taken_label(lake_log.read(store), label)
    if taken and again:
        raise UsageError(taken)
    cut = take_cut(store, tables, patience_seconds=patience_seconds)
    there = {table: head for table, head in cut.heads.items() if not head.dropped}
    for gone in sorted(set(named) - there.keys()):
        if (snapshot := log.read_snapshot(store, gone)) is not None:
            snapshot.check_there()
        raise NotFoundError(f"the lake has no table {gone}: list its tables with: singerlake ls")
    if not there:
        raise NotFoundError("there is no table to freeze: nothing is committed yet")
    cut = Cut(there, cut.time)

    def version_of(table: TableName) -> FrozenVersion | None:
        head = log.read_snapshot(store, table)
        if head is None:
            raise NotFoundError(f"{table} was deleted after a moment ago: run it again")
        table_plan(head, at=_at_cut(head, cut).number)
        return version_at_cut(head, cut, allow_violations=allow_violations)

    with ThreadPoolExecutor(READERS, "versions") as pool:
        found = dict(zip(there, pool.map(version_of, there), strict=True))
    versions = {table: version for table, version in found.items() if version is not None}
    wanted = LakeFreeze(cut, label, comment, versions, again)
    if taken and (
        wanted.missing or _same(lake_log.read(store), _lake_tables(wanted, {}), label) is None
    ):
        raise UsageError(taken)
    return wanted


def taken_label(versions: Sequence[LakeVersion], label: str | None) -> str | None:
    """Say which lake version has a label; None where none has."""
    taken = next((one for one in versions if label is not None and one.label == label), None)
    if taken is None:
        return None
    return f"lake version {taken.number} has the label {label!r} already: choose another"


def _at_cut(head: TableState, cut: Cut) -> TableState:
    """Return a table as it was at the cut.

    Raises:
        ConflictError: It was given up, or exchanged, meanwhile.
    """
    wanted = cut.heads[head.table]
    try:
        same = head.summary(wanted.number).commit == wanted.commit
        at = head.at(wanted.number)
    except NotFoundError as error:
        raise ConflictError(f"{error}; no lake version was created: run it again") from error
    if not same:
        raise ConflictError(
            f"transaction {wanted.number} of {head.table} differs from a moment ago: no lake "
            "version was created; check for damage with: singerlake verify"
        )
    return at


def version_at_cut(head: TableState, cut: Cut, *, allow_violations: bool) -> FrozenVersion | None:
    """Return the newest version that means a table's state at a cut; None where there is none.

    Args:
        head: The table.
        cut: The cut.
        allow_violations: Take one that says that its rows break constraints, too.

    Raises:
        ConflictError: The state was given up, or exchanged, meanwhile.
    """
    number = _at_cut(head, cut).number
    return version_of_state(head, number, allow_violations=allow_violations)


def _lake_tables(wanted: LakeFreeze, made: Mapping[TableName, FrozenVersion]) -> list[LakeTable]:
    versions = {**wanted.found, **made}
    return in_order(
        LakeTable(
            tap=table.tap,
            stream=table.stream,
            head=wanted.cut.heads[table].number,
            version=version.number,
            transaction=version.transaction,
            rows=version.rows,
            fingerprint=version.fingerprint,
            record_fingerprint=version.record_fingerprint,
        )
        for table, version in ((table, versions[table]) for table in wanted.cut.heads)
    )


def _same(
    present: Sequence[LakeVersion], tables: Sequence[LakeTable], label: str | None
) -> LakeVersion | None:
    """The newest lake version of the same table versions, with the label if one is wanted."""
    proof = fingerprint(tables)
    found = (one for one in reversed(present) if label in (None, one.label))
    return next((one for one in found if one.fingerprint == proof), None)


class _ThereAlreadyError(Exception):
    """A lake version names the same versions."""

    def __init__(self, version: LakeVersion) -> None:
        super().__init__(version.number)
        self.version = version


def commit_lake_version(
    store: Store, wanted: LakeFreeze, made: Mapping[TableName, FrozenVersion]
) -> LakeVersion:
    """Commit the lake version.

    Args:
        store: The lake's store.
        wanted: The plan.
        made: Of each table that was missing one, the version of its state at the cut.

    Returns:
        The lake version, with the number it got; or the one that is there, if that will do.

    Raises:
        UsageError: The label was taken meanwhile.
        ConflictError: Others made lake versions faster than this one could follow.
        DamagedError: The lake's log is damaged.
        StoreError: The store refused.
    """
    tables = _lake_tables(wanted, made)

    def draft(present: Sequence[LakeVersion]) -> LakeVersion:
        there = None if wanted.again else _same(present, tables, wanted.label)
        if there is not None:
            raise _ThereAlreadyError(there)
        if taken := taken_label(present, wanted.label):
            raise UsageError(f"{taken}; the tables' versions were created, and will be reused")
        return LakeVersion(
            format=FORMAT,
            number=0,
            commit="",
            time="",
            cut=wanted.cut.time,
            writer=new_writer_id(),
            software=SOFTWARE,
            by=current_user(),
            label=wanted.label,
            comment=wanted.comment,
            tables=tables,
            fingerprint=fingerprint(tables),
        )

    try:
        return lake_log.commit(store, draft)
    except _ThereAlreadyError as found:
        return found.version
