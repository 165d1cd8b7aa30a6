"""The verify job: every block on the executors, then every frozen version from its blocks."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

import msgspec
import pyarrow as pa
from blake3 import blake3
from pyspark.sql import SparkSession

from singerlake.errors import SingerlakeError
from singerlake.format.log import Block, FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.maintenance import verify as checks
from singerlake.maintenance.verify import MAX_PROBLEMS, Problem, Report
from singerlake.maintenance.verify_block import check_block
from singerlake.maintenance.verify_files import NamedFile, check_file, check_lists, tasks_of
from singerlake.maintenance.verify_index import cache_hint, check_indexes
from singerlake.reading import index
from singerlake.records.blocks import block_tasks
from singerlake.records.blocks.misfits import ways_out
from singerlake.records.rows.steps import Batches
from singerlake.records.state.fingerprint import Content, Proof, claims
from singerlake.records.state.parquet_parts import Part
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.jvm.session import cores
from singerlake.spark.state.content import index_content, state_content, state_misfits
from singerlake.spark.state.frames import numbered
from singerlake.storage.base import Store
from singerlake.transactions.snapshot import Snapshot

_T = TypeVar("_T")
_PROBLEMS = "number long, problem binary, more long"
_PROBLEM = msgspec.json.Decoder(Problem)
_NOTHING = (1 << 63) - 1
"""Stands where a row only counts problems."""


def verify(spark: SparkSession, table: Table, version: str | None = None) -> Report:
    """Hold all of a table against its log.

    Args:
        spark: The session.
        table: The table.
        version: A frozen version's number or label; by default all are computed again.

    Returns:
        What was looked at, and what is not as it should be.

    Raises:
        NotFoundError: There is no such version.
        StoreError: The store refused a listing, or the log.
    """
    with ExitStack() as leases:
        with suppress(SingerlakeError):  # a log that cannot be read is what it must report
            leases.enter_context(table.lease())
        return _verify(spark, table, version)


def _verify(spark: SparkSession, table: Table, version: str | None) -> Report:
    log = checks.check_log(table.store, table.name)
    head = log.snapshot
    dropped = bool(head.dropped_at)
    if dropped:
        log.notes.append(checks.dropped_words(head))
        head = replace(head, blocks=head.restorable or [])
    wanted = head.frozen if version is None else [head.version(version)]
    listing = list(table.store.list(table.name.folder))
    problems, readable = checks.check_files(head, listing)
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
    report.add(log.problems)
    report.add(problems)
    report.add(*_check_blocks(spark, table, readable))
    wrong, stored = check_lists(table.store, table.name, head.blocks, listing)
    report.stored = len(stored)
    report.add(wrong)
    report.add(*_check_stored(spark, table, stored))
    indexes, notes, parts = check_indexes(table.store, head)
    report.add((checker := _Versions(spark, table, head)).check(wanted))
    if version is None and head.number and not dropped:
        _add_misfits(spark, table, head, report)
    report.add(indexes)
    report.add(*_check_parts(spark, table, [part for part in parts if part[0] not in checker.read]))
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


def _add_misfits(spark: SparkSession, table: Table, head: Snapshot, report: Report) -> None:
    """Report the values in the head that no reader can have as what their columns are."""
    state = head.earliest_equal()
    if any(head.at(v.transaction).earliest_equal().number == state.number for v in head.frozen):
        return  # a version was made of it, so all fits, and was read above
    try:
        report.misfits = state_misfits(spark, table, state)
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


def _check_blocks(
    spark: SparkSession, table: Table, blocks: list[Block]
) -> tuple[list[Problem], int]:
    """Check blocks on the executors.

    Returns:
        Problems of the first blocks that have any, and the number of the others.
    """
    tasks = block_tasks.split(blocks, 2 * cores(spark), block_tasks.TASK_BYTES)
    return _problems(spark, tasks, partial(check_block, table.store, table.name))


def _check_stored(
    spark: SparkSession, table: Table, stored: list[NamedFile]
) -> tuple[list[Problem], int]:
    """Hash the files that rows name, on the executors."""
    return _problems(spark, tasks_of(stored), partial(_check_stored_file, table.store, table.name))


def _check_stored_file(store: Store, table: TableName, file: NamedFile) -> list[Problem]:
    return check_file(store, table, file[0])


def _check_parts(
    spark: SparkSession, table: Table, parts: list[tuple[str, str]]
) -> tuple[list[Problem], int]:
    """Hold the files of indexes against their hashes, on the executors."""
    tasks = [[Part(*part)] for part in parts]
    return _problems(spark, tasks, partial(_check_part, table.store))


def _check_part(store: Store, part: Part) -> list[Problem]:
    try:
        actual = blake3(store.get(part.key).data).hexdigest()
    except SingerlakeError as error:
        actual = str(error)
    if actual == part.hash:
        return []
    hint = cache_hint(part.key.rpartition("/")[0] + "/")
    return [Problem("index", part.key, f"the hash {part.hash}", actual, hint)]


def _problems(
    spark: SparkSession, tasks: list[list[_T]], check: Callable[[_T], list[Problem]]
) -> tuple[list[Problem], int]:
    """Check things on the executors.

    Returns:
        Problems of the first things that have any, and the number of the others.
    """
    if not tasks:
        return [], 0
    with plain_errors():
        problems = numbered(spark, len(tasks)).mapInArrow(_Checker(tasks, check), _PROBLEMS)
        # One executor cuts the list of them all, so that the driver gets no more than it reports.
        rows = problems.repartition(1).mapInArrow(_first_problems, _PROBLEMS).collect()
    first = [
        _PROBLEM.decode(row["problem"])
        for row in sorted(rows, key=lambda row: int(row["number"]))
        if row["problem"] is not None
    ]
    return first, sum(row["more"] for row in rows)


@dataclass
class _Checker(Generic[_T]):
    """Checks things on an executor. Sent there by value: the store goes with it.

    Attributes:
        tasks: The things of each task.
        check: Finds the problems of one.
    """

    tasks: list[list[_T]]
    check: Callable[[_T], list[Problem]]

    def __call__(self, numbers: Batches) -> Batches:
        """Check the tasks whose numbers come in; gives one row a problem."""
        for number in block_tasks.numbers(numbers):
            yield self._checked(number)

    def _checked(self, task: int) -> pa.RecordBatch:
        rows: list[tuple[int, bytes]] = []
        more = 0
        for number, one in enumerate(self.tasks[task], start=sum(map(len, self.tasks[:task]))):
            for problem in self.check(one):
                if len(rows) < MAX_PROBLEMS:
                    rows.append((number, msgspec.json.encode(problem)))
                else:
                    more += 1
        return _rows(rows, more)


def _first_problems(batches: Batches) -> Batches:
    more = total = 0

    def rows() -> Iterator[tuple[int, bytes]]:
        nonlocal more, total
        for batch in batches:
            columns = (batch.column(name) for name in ("number", "problem", "more"))
            for number, problem, others in zip(*(c.to_pylist() for c in columns), strict=True):
                more += others
                if problem is not None:
                    total += 1
                    yield number, problem

    kept = heapq.nsmallest(MAX_PROBLEMS, rows())
    yield _rows(kept, more + total - len(kept))


def _rows(rows: list[tuple[int, bytes]], more: int) -> pa.RecordBatch:
    """Problems with the numbers of what they are about, and a row that counts those left out."""
    return pa.RecordBatch.from_pydict(
        {
            "number": pa.array([*(number for number, _ in rows), _NOTHING], pa.int64()),
            "problem": pa.array([*(problem for _, problem in rows), None], pa.binary()),
            "more": pa.array([*(0 for _ in rows), more], pa.int64()),
        }
    )


@dataclass
class _Versions:
    """Computes versions again; those of the same state only once.

    Attributes:
        read: Keys of index files that were read, and so held against their hashes.
    """

    spark: SparkSession
    table: Table
    head: Snapshot
    read: set[str] = field(default_factory=set)
    _contents: dict[int, Content | SingerlakeError] = field(default_factory=dict)
    _indexes: dict[int, list[Problem]] = field(default_factory=dict)
    _proofs: dict[int, dict[Proof, str]] = field(default_factory=dict)

    def check(self, versions: Sequence[FrozenVersion]) -> list[Problem]:
        problems = []
        states = [self.head.at(version.transaction).earliest_equal() for version in versions]
        for version, at in zip(versions, states, strict=True):
            self._proofs.setdefault(at.number, {}).update(claims(version))
        for version, at in zip(versions, states, strict=True):
            content = self._content(at)
            where = f"version {version.number}, transaction {version.transaction}"
            if isinstance(content, SingerlakeError):
                wanted = "a state that can be read"
                problems.append(Problem("version", where, wanted, str(content)))
                continue
            known = Content(version.rows, claims(version))
            problems += _differences("version", where, known, content, "")
            if at.number not in self._indexes:
                self._indexes[at.number] = self._check_index(at, content)
                problems += self._indexes[at.number]
        return problems

    def _content(self, at: Snapshot) -> Content | SingerlakeError:
        """From the blocks alone: an index may be what is wrong."""
        if at.number not in self._contents:
            try:
                proofs = tuple(self._proofs[at.number])
                self._contents[at.number] = state_content(self.spark, self.table, at, proofs)
            except SingerlakeError as error:
                self._contents[at.number] = error
        return self._contents[at.number]

    def _check_index(self, at: Snapshot, known: Content) -> list[Problem]:
        """Queries read the index of a version if there is one, so it must hold the same."""
        built = index.load(self.table, at)
        if built is None:
            return []
        if built.below is None:  # over a layer it is Spark that reads, and looks at no hash
            self.read.update(part.key for part in built.parts)
        folder = self.table.name.index(at.number)
        hint = cache_hint(folder)
        if built.below is not None:
            hint += f", and {self.table.name.index(built.below.marker.transaction)}, below it"
        try:
            with plain_errors():
                actual = index_content(self.spark, built, tuple(known.proofs))
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
