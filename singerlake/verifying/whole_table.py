"""All of a table held against its log, whoever reads it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from blake3 import blake3

from singerlake.engine.base import Engine
from singerlake.engine.work import TooLargeError, Work
from singerlake.errors import DamagedError, SingerlakeError
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.maintenance import verify as checks
from singerlake.maintenance.problems import Problem, Report
from singerlake.maintenance.verify_block import check_block
from singerlake.maintenance.verify_data_files import check_ends, check_files
from singerlake.maintenance.verify_files import NamedFile, check_file, check_lists, tasks_of
from singerlake.maintenance.verify_index import cache_hint, check_indexes
from singerlake.reading import index
from singerlake.records.blocks import block_tasks
from singerlake.records.blocks.misfits import ways_out
from singerlake.records.state.fingerprint import Content, Proof, claims
from singerlake.records.state.parquet_parts import Part
from singerlake.snapshot.content import index_content, state_content, state_misfits
from singerlake.snapshot.from_blocks import needed_blocks
from singerlake.storage.base import Store
from singerlake.transactions import catalogue
from singerlake.transactions.folding import restored
from singerlake.transactions.snapshot import Snapshot
from singerlake.verifying.checking import problems as checked

ENTRY_BYTES = 1_000
"""What an entry of the log counts as."""
_State: TypeAlias = tuple[int, int]


def _state(at: Snapshot) -> _State:
    """What tells one state, and how it is read, from another."""
    return at.number, at.rules


def verify(
    engine: Engine[Any], table: Table, version: str | None = None, limit: Work | None = None
) -> Report:
    """Hold all of a table against its log.

    Args:
        engine: Reads what there may be much of.
        table: The table.
        version: A frozen version's number or label; by default all are computed again.
        limit: The most that there may be to do.

    Returns:
        What was looked at, and what is not as it should be.

    Raises:
        NotFoundError: There is no such version, or nothing was ever committed of the table.
        StoreError: The store refused a listing, or the log.
        TooLargeError: There is more to do than ``limit``; nothing large was read.
    """
    with ExitStack() as leases:
        with suppress(SingerlakeError):  # a log that cannot be read is what it must report
            leases.enter_context(table.lease())
        return verify_leased(engine, table, version, limit)


def check_size(limit: Work | None, head: Snapshot, states: Iterable[Snapshot]) -> None:
    """Make sure that there is not too much to do, before anything large is read.

    Args:
        limit: The most that there may be; None for any amount.
        head: The table, with all blocks that are read.
        states: Those that are read once more.

    Raises:
        TooLargeError: There is more.
    """
    if limit is None:
        return
    named = any(block.files for block in head.blocks)  # of any size, and hashed whole
    work = Work(sys.maxsize if named else head.number * ENTRY_BYTES)
    work += Work.of(head.blocks, len(head.columns) if head.blocks else 0)
    seen: set[int] = set()
    for state in states:
        if not work.fits(limit):
            break
        if state.number not in seen:
            seen.add(state.number)
            work += Work.of(needed_blocks(state), 0)
    if not work.fits(limit):
        raise TooLargeError


def verify_leased(
    engine: Engine[Any], table: Table, version: str | None, limit: Work | None
) -> Report:
    """Do as :func:`verify`, for somebody who holds a lease where there can be one."""
    log = checks.check_log(table.store, table.name)
    head = log.snapshot
    dropped = bool(head.dropped_at)
    if dropped:
        log.notes.append(checks.dropped_words(head))
        head = restored(head)
    wanted = head.frozen if version is None else [head.version(version)]
    check_size(limit, head, (head.frozen_as(version).earliest_equal() for version in wanted))
    listing = list(table.store.list(table.name.folder))
    problems, readable = check_files(head, listing)
    report = Report(
        table.name,
        transactions=head.number,
        blocks=len(head.blocks),
        files=len({block.file for block in head.blocks}),
        bytes=sum(block.length for block in head.blocks),
        versions=len(wanted),
        dropped=dropped,
        notes=[*log.notes, *checks.unnamed_files(log, listing)],
    )
    with suppress(DamagedError):  # of a schema that the log lost, it tells as such
        report.listing = catalogue.entry_of(
            table.name, head.schema, laid_over=not head.overlay.only_texts
        )
    report.add(log.problems)
    report.add(problems)
    problems, notes = check_ends(table.store, head, log.ends, listing)
    report.add(problems)
    report.notes += notes
    tasks = block_tasks.split(readable, engine.parts, block_tasks.TASK_BYTES)
    report.add(*checked(engine, tasks, partial(check_block, table.store, table.name)))
    wrong, stored = check_lists(table.store, table.name, head.blocks, listing)
    report.stored = len(stored)
    report.add(wrong)
    one_file = partial(_check_stored_file, table.store, table.name)
    report.add(*checked(engine, tasks_of(stored), one_file))
    indexes, notes, parts = check_indexes(table.store, head)
    report.add((checker := _Versions(engine, table, head)).check(wanted))
    if version is None and head.number and not dropped:
        _add_misfits(engine, table, head, report)
    report.add(indexes)
    unread = [[Part(*part)] for part in parts if part[0] not in checker.read]
    report.add(*checked(engine, unread, partial(_check_part, table.store)))
    report.notes += notes
    if weak := [version.number for version in wanted if version.only_against_accident]:
        report.notes.append(_weak(table, weak))
    return report


def _weak(table: Table, versions: list[int]) -> str:
    listed = ", ".join(map(str, versions))
    return (
        f"{'version' if len(versions) == 1 else 'versions'} {listed}, of an earlier release, "
        "proved against accident only: whoever may choose rows can make others of the same "
        f"fingerprint. A freeze of the same transaction (singerlake freeze {table.name} --at …) "
        "is proof against that too"
    )


def _add_misfits(engine: Engine[Any], table: Table, head: Snapshot, report: Report) -> None:
    """Report the values in the head that no reader can have as what their columns are."""
    state = head.earliest_equal()
    if any(_state(head.frozen_as(v).earliest_equal()) == _state(state) for v in head.frozen):
        return  # a version was made of it, so all fits, and was read above
    try:
        report.misfits = state_misfits(engine, table, state)
    except SingerlakeError as error:
        if any(problem.what in ("log", "file", "block") for problem in report.problems):
            return  # which was reported, and is why
        where = f"transaction {state.number}"
        report.add([Problem("head", where, "a state that can be read", str(error))])
        return
    report.add(
        [
            Problem(
                "value",
                f"transaction {state.number}",
                f"what column {one.column!r} can hold",
                str(one),
                ways_out(head.table, [one.column], keyed=bool(head.schema.key_properties)),
            )
            for one in report.misfits
        ]
    )


def _check_stored_file(store: Store, table: TableName, file: NamedFile) -> list[Problem]:
    return check_file(store, table, file[0])


def _check_part(store: Store, part: Part) -> list[Problem]:
    try:
        actual = blake3(store.get(part.key).data).hexdigest()
    except SingerlakeError as error:
        actual = str(error)
    if actual == part.hash:
        return []
    hint = cache_hint(part.key.rpartition("/")[0] + "/")
    return [Problem("index", part.key, f"the hash {part.hash}", actual, hint)]


@dataclass
class _Versions:
    """Computes versions again; those of the same state only once.

    Attributes:
        read: Keys of index files that were read, and so held against their hashes.
    """

    engine: Engine[Any]
    table: Table
    head: Snapshot
    read: set[str] = field(default_factory=set)
    _contents: dict[_State, Content | SingerlakeError] = field(default_factory=dict)
    _indexes: dict[_State, list[Problem]] = field(default_factory=dict)
    _proofs: dict[_State, dict[Proof, str]] = field(default_factory=dict)

    def check(self, versions: Sequence[FrozenVersion]) -> list[Problem]:
        problems = []
        states = [self.head.frozen_as(version).earliest_equal() for version in versions]
        for version, at in zip(versions, states, strict=True):
            self._proofs.setdefault(_state(at), {}).update(claims(version))
        for version, at in zip(versions, states, strict=True):
            content = self._content(at)
            where = f"version {version.number}, transaction {version.transaction}"
            if isinstance(content, SingerlakeError):
                wanted = "a state that can be read"
                problems.append(Problem("version", where, wanted, str(content)))
                continue
            known = Content(version.rows, claims(version))
            problems += _differences("version", where, known, content, "")
            if _state(at) not in self._indexes:
                self._indexes[_state(at)] = self._check_index(at, content)
                problems += self._indexes[_state(at)]
        return problems

    def _content(self, at: Snapshot) -> Content | SingerlakeError:
        """From the blocks alone: an index may be what is wrong."""
        state = _state(at)
        if state not in self._contents:
            try:
                proofs = tuple(self._proofs[state])
                self._contents[state] = state_content(self.engine, self.table, at, proofs)
            except SingerlakeError as error:
                self._contents[state] = error
        return self._contents[state]

    def _check_index(self, at: Snapshot, known: Content) -> list[Problem]:
        """Queries read the index of a version if there is one, so it must hold the same."""
        built = index.load(self.table, at)
        if built is None:
            return []
        below = [] if built.below is None else built.below.parts
        self.read.update(part.key for part in [*built.parts, *below])
        folder = index.folder_of(self.table, at)
        hint = cache_hint(folder)
        if built.below is not None:
            hint += f", and {index.folder_of(self.table, built.below.snapshot)}, below it"
        try:
            actual = index_content(self.engine, built, tuple(known.proofs))
        except SingerlakeError as error:
            return [Problem("index", folder, "files that can be read", str(error), hint)]
        return _differences("index", folder, known, actual, hint)


def _differences(
    what: str, where: str, known: Content, actual: Content, hint: str
) -> list[Problem]:
    pairs = {"rows": (f"{known.rows}", f"{actual.rows}")}
    for proof, text in known.proofs.items():
        pairs[f"as {_TITLES[proof]}"] = (text, actual.proofs[proof])
    return [
        Problem(what, where, f"{expected} {name}", present, hint)
        for name, (expected, present) in pairs.items()
        if expected != present
    ]


_TITLES = {
    Proof.VALUES: "fingerprint",
    Proof.RECORDS: "fingerprint of the records",
    Proof.ACCIDENT: "fingerprint",
}
