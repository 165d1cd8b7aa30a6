"""Every operation on the store goes wrong once in each way: before or after, never between.

The suite runs all of it for what needs no Spark, but for kills before an operation and after one
that only reads: they leave what a kill after the write before leaves. Of each kind of Spark job it
takes the commit. ``make faults`` runs everything and writes the counts into
docs/internals/promises.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from tests.faults import report
from tests.faults.cases import Bench, Case, Folder, fast_folder
from tests.faults.copies import COPIES, CopyLakeVersion
from tests.faults.erasing import EraseRow
from tests.faults.faulty_store import (
    ERROR_BEFORE,
    INTERRUPT,
    KILL_AFTER,
    KILL_BEFORE,
    KINDS,
    LOST_REPLY,
    LOST_THEN_OUTAGE,
    NOT_DURABLE,
    OUTAGE,
    READS,
    TAKEN,
    Kind,
)
from tests.faults.files import (
    FILES,
    UPLOADS,
    BatchCleanUp,
    CopyFiles,
    ExportFiles,
    TargetFiles,
    UploadFolder,
    VacuumFiles,
)
from tests.faults.operations import (
    OPERATIONS,
    Alter,
    Change,
    CreateTable,
    Drop,
    Freeze,
    Operation,
    Revert,
    Target,
    TargetLongLog,
    Undo,
)
from tests.faults.published import (
    PUBLISHING,
    Publish,
    PublishDelta,
    PublishFirst,
    PublishIceberg,
)
from tests.faults.s3_place import WIRE_KINDS, Bucket, StrikingRelay
from tests.faults.service_place import Container
from tests.storage.conftest import no_aws_settings, s3_port
from tests.storage.services import azure, google

__all__ = ["azure", "google", "no_aws_settings", "s3_port"]
EVERYTHING = os.environ.get("SINGERLAKE_FAULTS") == "all"
PLAIN = [*(operation for operation in OPERATIONS if not operation.spark), *COPIES]
SPARK = [
    *(operation for operation in OPERATIONS if operation.spark),
    EraseRow,
    *UPLOADS,
    *PUBLISHING,
]
# Of the Spark jobs the suite takes a fault at the commit each, and one that was a bug once. A table
# without a key and one with a new key are changed by the same commit; test_small_revert.py turns
# one without a key back.
QUICK = [
    (Freeze, TAKEN, "_index.json"),
    (Freeze, LOST_THEN_OUTAGE, "/transactions/"),
    (Revert, LOST_THEN_OUTAGE, "/transactions/"),
    (Undo, LOST_THEN_OUTAGE, "/transactions/"),
    (Change, LOST_THEN_OUTAGE, "/transactions/"),
    (Alter, LOST_THEN_OUTAGE, "/transactions/"),
    (CreateTable, LOST_REPLY, "/transactions/"),
    (EraseRow, LOST_THEN_OUTAGE, "/000000000006.json"),  # the erasure itself
    (EraseRow, KILL_AFTER, "/000000000006.json"),
    (EraseRow, KILL_AFTER, "/000000000002.json"),  # the first entry that is replaced for it
    (UploadFolder, NOT_DURABLE, "settled"),
    (UploadFolder, LOST_THEN_OUTAGE, "/transactions/"),
    (Publish, LOST_THEN_OUTAGE, "/transactions/"),
    (Publish, KILL_AFTER, "beside/_latest.json"),
    (PublishFirst, INTERRUPT, "beside/"),
    (PublishIceberg, TAKEN, "beside/catalog.db"),
    (PublishDelta, LOST_REPLY, "beside/_delta_log/"),
]
# Of files beside rows it takes some places each, where files and commits are.
QUICK_FILES = [
    *((TargetFiles, kind, "files/") for kind in (OUTAGE, LOST_THEN_OUTAGE, TAKEN)),
    (TargetFiles, INTERRUPT, "raw/"),
    (TargetFiles, KILL_AFTER, "files/lists"),
    (TargetFiles, LOST_THEN_OUTAGE, "/transactions/"),
    (VacuumFiles, OUTAGE, "files/"),
    (VacuumFiles, LOST_THEN_OUTAGE, "files/"),
    (VacuumFiles, INTERRUPT, "raw/"),
    (VacuumFiles, LOST_THEN_OUTAGE, "/transactions/"),
    (CopyFiles, INTERRUPT, "files/"),
    (CopyFiles, LOST_THEN_OUTAGE, "/transactions/"),
    (ExportFiles, OUTAGE, "files/"),
    (ExportFiles, KILL_AFTER, "files/"),
    (BatchCleanUp, OUTAGE, "/transactions/"),
    (BatchCleanUp, LOST_THEN_OUTAGE, "/transactions/"),
    (BatchCleanUp, INTERRUPT, "beside/"),
    (BatchCleanUp, KILL_AFTER, "beside/"),
]
# And of a copied lake version, where its log and what it leaves out are written.
QUICK_LAKE_VERSION = [
    *((kind, "versions/") for kind in (LOST_REPLY, NOT_DURABLE, LOST_THEN_OUTAGE, TAKEN)),
    *((kind, "not-copied") for kind in (OUTAGE, INTERRUPT, KILL_AFTER)),
    (ERROR_BEFORE, "raw/tap-test/v/"),  # a table that is left out, or so it seems
]
S3_STEP = 1 if EVERYTHING else 53
ELSEWHERE_STEP = 1 if EVERYTHING else 1000

Benches = Callable[[type[Operation]], Bench]
Elsewhere = Callable[[str], tuple[Bench, str]]


@pytest.fixture
def counts() -> Iterator[report.Counts]:
    """Cases that were run; written down where all are, test by test, for they take hours."""
    counts: report.Counts = {}
    yield counts
    if EVERYTHING:
        report.write(counts)


@pytest.fixture(scope="module")
def benches(processes: None) -> Iterator[Benches]:
    """A bench for each operation, made when it is first asked for."""
    made: dict[type[Operation], Bench] = {}
    with ExitStack() as stack:

        def bench(operation: type[Operation]) -> Bench:
            if operation not in made:
                folder = stack.enter_context(fast_folder())
                # What Spark takes longest for is not done twice where few cases follow.
                once = operation in SPARK and not EVERYTHING
                made[operation] = Bench(operation(), Folder(folder), folder, once=once)
            return made[operation]

        yield bench


@pytest.fixture(scope="module")
def on_s3(s3_port: int) -> Iterator[Bench]:
    """The target's bench on S3."""
    with fast_folder() as folder, StrikingRelay(s3_port).running() as relay:
        assert isinstance(relay, StrikingRelay)
        yield Bench(Target(), Bucket(s3_port, relay), folder)


@pytest.fixture(scope="module")
def elsewhere(processes: None, request: pytest.FixtureRequest) -> Iterator[Elsewhere]:
    """The target's bench on Google Cloud Storage, and on Azure; and its column."""
    made: dict[str, tuple[Bench, str]] = {}
    with ExitStack() as stack:

        def bench(name: str) -> tuple[Bench, str]:
            if name not in made:
                service = request.getfixturevalue(name)
                folder = stack.enter_context(fast_folder())
                relay = stack.enter_context(StrikingRelay(service.port).running())
                assert isinstance(relay, StrikingRelay)
                place = Container(service, relay)
                made[name] = Bench(Target(), place, folder), report.ELSEWHERE[service.scheme]
            return made[name]

        yield bench


def run(bench: Bench, cases: list[Case], counts: report.Counts, column: str) -> None:
    assert cases
    for case in cases:
        bench.run(case)
    counts[cases[0].kind.name, column] = len(cases)


def run_part(bench: Bench, kind: Kind, part: str, counts: report.Counts) -> None:
    """Run the cases whose key has a part in it; of all, an operation may have none of a kind."""
    if cases := [case for case in bench.cases(kind) if part in case.done.key]:
        run(bench, cases, counts, bench.operation.name)
    else:
        assert not part, "no such operation on the store"


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (operation, kind)
        for operation in PLAIN
        for kind in KINDS
        # Killed before a request is killed after the one before it; one shows that it is tried.
        if EVERYTHING or kind != KILL_BEFORE or operation is Drop
    ],
    ids=lambda value: value.name,
)
def test_every_operation_of_the_store(
    benches: Benches, counts: report.Counts, operation: type[Operation], kind: Kind
) -> None:
    bench = benches(operation)
    cases = bench.cases(kind)
    if kind == KILL_AFTER and not EVERYTHING:
        cases = [case for case in cases if case.done.method not in READS]
    run(bench, cases, counts, operation.name)


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if EVERYTHING or kind.methods & {"get", "replace"}],
    ids=lambda kind: kind.name,
)
def test_a_table_with_a_head_file(benches: Benches, kind: Kind) -> None:
    run_part(benches(TargetLongLog), kind, "" if EVERYTHING else "head.json", {})


@pytest.mark.parametrize(
    ("operation", "kind", "part"),
    [(operation, kind, "") for operation in FILES for kind in KINDS] if EVERYTHING else QUICK_FILES,
    ids=lambda value: value or "all" if isinstance(value, str) else value.name,
)
def test_files_beside_rows(
    benches: Benches, counts: report.Counts, operation: type[Operation], kind: Kind, part: str
) -> None:
    run_part(benches(operation), kind, part, counts)


@pytest.mark.parametrize(
    ("kind", "part"),
    [(kind, "") for kind in KINDS] if EVERYTHING else QUICK_LAKE_VERSION,
    ids=lambda value: value or "all" if isinstance(value, str) else value.name,
)
def test_a_copied_lake_version(
    benches: Benches, counts: report.Counts, kind: Kind, part: str
) -> None:
    run_part(benches(CopyLakeVersion), kind, part, counts)


@pytest.mark.usefixtures("quick_plans")
@pytest.mark.parametrize(
    ("operation", "kind", "part"),
    [(operation, kind, "") for kind in KINDS for operation in SPARK] if EVERYTHING else QUICK,
    ids=lambda value: value or "all" if isinstance(value, str) else value.name,
)
def test_a_spark_job(
    spark: SparkSession,
    benches: Benches,
    counts: report.Counts,
    operation: type[Operation],
    kind: Kind,
    part: str,
) -> None:
    run_part(benches(operation), kind, part, counts)


@pytest.mark.parametrize("kind", WIRE_KINDS, ids=lambda kind: kind.name)
def test_every_request_to_s3(on_s3: Bench, counts: report.Counts, kind: Kind) -> None:
    # Another place for each kind where only some are taken.
    cases = on_s3.cases(kind)[WIRE_KINDS.index(kind) % S3_STEP :: S3_STEP]  # type: ignore[arg-type]
    run(on_s3, cases, counts, report.ON_S3)


@pytest.mark.parametrize(
    ("service", "kind"),
    [
        (service, kind)
        for service, first in (("google", 0), ("azure", 1))
        for kind in (WIRE_KINDS if EVERYTHING else WIRE_KINDS[first::2])
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_every_request_elsewhere(
    elsewhere: Elsewhere, counts: report.Counts, service: str, kind: Kind
) -> None:
    bench, column = elsewhere(service)
    first = 3 * WIRE_KINDS.index(kind) % ELSEWHERE_STEP  # type: ignore[arg-type]
    run(bench, bench.cases(kind)[first::ELSEWHERE_STEP], counts, column)


@pytest.mark.usefixtures("processes")
def test_a_table_with_a_head_file_on_s3(s3_port: int) -> None:
    with fast_folder() as folder, StrikingRelay(s3_port).running() as relay:
        assert isinstance(relay, StrikingRelay)
        bench = Bench(TargetLongLog(), Bucket(s3_port, relay), folder)
        # The file is replaced: what matters is whether that has happened. ``make faults`` has all.
        for number, kind in enumerate(WIRE_KINDS if EVERYTHING else WIRE_KINDS[1::4]):
            cases = [case for case in bench.cases(kind) if "head.json" in case.done.key]  # type: ignore[arg-type]
            # Another of them for each kind where only some are taken.
            run(bench, cases if EVERYTHING else [cases[number % len(cases)]], {}, "")


def test_the_table_in_the_docs_is_of_these_faults_and_operations() -> None:
    rows, columns, counts = report.read(report.PAGE.read_text(encoding="utf-8"))
    assert (rows, columns) == (report.ROWS, report.COLUMNS), "run: make faults"
    assert counts
