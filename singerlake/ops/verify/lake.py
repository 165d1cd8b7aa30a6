"""Verifying lake versions: the lake's own log, and what it says of the tables' versions.

Only logs are read. That a table's version is what its own log says, the check of the table shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from singerlake.errors import SingerlakeError
from singerlake.format import names
from singerlake.format.lake_log import LakeTable, LakeVersion, fingerprint
from singerlake.format.names import TableName
from singerlake.log import bookmarks, log, not_copied, versions
from singerlake.log.lake_log import HINT, LakeLog, listed_numbers
from singerlake.log.not_copied import Absences, entry_of
from singerlake.log.table_state import TableState
from singerlake.ops.verify.problems import BACKUP, Problem
from singerlake.storage.base import Store

_COMPARED = ("transaction", "rows", "fingerprint", "record_fingerprint")
Finding: TypeAlias = "Problem | str"
"""What is wrong, or only worth knowing."""


@dataclass
class LakeReport:
    """The findings in the lake's log.

    Attributes:
        versions: The lake versions that were checked.
        notes: What is worth knowing and no damage.
        unreadable: Tables that have the version no more, or not what the lake version says.
    """

    versions: list[LakeVersion] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreadable: set[TableName] = field(default_factory=set)


def check_lake_log(store: Store, only: int | None = None) -> LakeReport:
    """Check lake versions, as far as logs tell.

    Args:
        only: The number of one; all by default.

    Returns:
        What was looked at, and what is not as it should be.
    """
    report = LakeReport()
    entries = _read_entries(store, report.problems)
    report.versions = [one for one in entries if only in (None, one.number)]
    if only is not None:
        report.problems = []  # of the others
    else:
        report.problems += _unreadable_bookmarks(store)
    absences = _read_absences(store, report.problems)
    heads: dict[TableName, TableState | SingerlakeError | None] = {}
    for version in report.versions:
        where = names.lake_version(version.number)
        if (computed := fingerprint(version.tables)) != version.fingerprint:
            report.problems.append(
                Problem("lake", where, f"fingerprint {computed}", version.fingerprint, BACKUP)
            )
        noted = absences.get(entry_of(version), frozenset())
        left_out: set[TableName] = set()
        for table in version.tables:
            if table.name not in heads:
                heads[table.name] = _head(store, table.name)
            head = heads[table.name]
            if table.name in noted and lacks(head, table):
                left_out.add(table.name)
                continue
            for finding in check_table(version, table, head):
                report.unreadable.add(table.name)
                if isinstance(finding, Problem):
                    report.problems.append(finding)
                else:
                    report.notes.append(finding)
        if left_out:
            report.unreadable |= left_out
            report.notes.append(not_copied.words(version, left_out))
    return report


def _read_entries(store: Store, problems: list[Problem]) -> list[LakeVersion]:
    """The entries that can be read; of the others, what is wrong."""
    entries: list[LakeVersion] = []
    last = 0
    for number in listed_numbers(store):
        if number > last + 1:
            lost = f"lake version {last + 1}"
            problems.append(Problem("lake", names.lake_version(last + 1), lost, "nothing", HINT))
        last, where = number, names.lake_version(number)
        try:
            entry = LakeLog(store).read(number)
        except SingerlakeError as error:
            problems.append(Problem("lake", where, f"lake version {number}", str(error), HINT))
            continue
        if entry is None:
            problems.append(Problem("lake", where, f"lake version {number}", "nothing", HINT))
            continue
        before = entries[-1] if entries else None
        if before and before.number == number - 1 and entry.previous != before.chain:
            expected = f"that it follows {before.chain}"
            problems.append(Problem("lake", where, expected, entry.previous, HINT))
        entries.append(entry)
    return entries


def _unreadable_bookmarks(store: Store) -> Iterator[Problem]:
    for state_id in bookmarks.ids(store):
        try:
            bookmarks.read(store, state_id)
        except SingerlakeError as error:
            hint = f"delete it: singerlake bookmark delete '{state_id}'"
            where = bookmarks.key_of(state_id)
            yield Problem("lake", where, f"the bookmark {state_id}", str(error), hint)


def _read_absences(store: Store, problems: list[Problem]) -> Absences:
    """Read what a copy left out of other lake versions; if that is lost, all counts as lost."""
    try:
        return not_copied.read(store)
    except SingerlakeError as error:
        where = names.NOT_COPIED
        problems.append(Problem("lake", where, "what was not copied", str(error), HINT))
        return {}


def lacks(head: TableState | SingerlakeError | None, table: LakeTable) -> bool:
    """Tell whether a table is not there at its version in a lake version, as far as is known."""
    if isinstance(head, SingerlakeError):
        return False
    return head is None or all(one.number != table.version for one in versions.known(head))


def what_became(store: Store, table: LakeTable, *, left_out: bool = False) -> str | None:
    """Say why a table cannot be read at its version in a lake version; None where it can.

    Args:
        table: What the lake version says of it.
        left_out: Whether a copy has left it out.
    """
    head = _head(store, table.name)
    if left_out and lacks(head, table):
        return f"{table.name} at version {table.version} was not copied to this lake"
    if head is None:
        return f"{table.name} is missing from the lake"
    if isinstance(head, SingerlakeError):
        return str(head)
    found = next((one for one in versions.known(head) if one.number == table.version), None)
    if found is None:
        return f"{table.name} has no version {table.version}"
    return versions.gone_words(head, found)


def _head(store: Store, table: TableName) -> TableState | SingerlakeError | None:
    try:
        return log.read_snapshot(store, table)
    except SingerlakeError as error:
        return error


def check_table(
    version: LakeVersion, table: LakeTable, head: TableState | SingerlakeError | None
) -> Iterator[Finding]:
    """Hold what a lake version says of a table against the table's own log.

    Args:
        table: What it says of the table.
        head: The table; or why it cannot be read, or None where it is not there.
    """
    where = f"{names.lake_version(version.number)}, {table.name}"
    expected = f"version {table.version}"
    if head is None:
        yield Problem("lake", where, expected, "no such table", BACKUP)
        return
    if isinstance(head, SingerlakeError):
        yield Problem("lake", where, expected, str(head))
        return
    found = next((one for one in versions.known(head) if one.number == table.version), None)
    if found is None:
        yield Problem("lake", where, expected, "no such version", BACKUP)
        return
    wrong = {
        name: (getattr(table, name), getattr(found, name))
        for name in _COMPARED
        if getattr(table, name) != getattr(found, name)
    }
    for name, (said, there) in wrong.items():
        erased = f"rows were erased: finish the erasure with: singerlake vacuum {table.name}"
        hint = erased if found.erased else BACKUP
        yield Problem("lake", where, f"{name} {said}", str(there), hint)
    if gone := versions.gone_words(head, found):
        yield f"{version}: {gone}"
